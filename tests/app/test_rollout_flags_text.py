"""What a rollout's status says of the flags in force, through a whole gateway."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.answer_world import IndexedData, ask, build_world, running
from tests.app.test_rollouts_api import BY, URL, start

pytestmark = pytest.mark.anyio


async def latest(client: httpx.AsyncClient) -> dict[str, Any]:
    [summary, *_] = (await client.get(URL)).json()["rollouts"]
    document: dict[str, Any] = (await client.get(f"{URL}/{summary['rollout_id']}")).json()
    return document


async def test_what_stands_in_for_a_broken_file_is_told_before_and_after_a_restart(
    tmp_path: Path, indexed: IndexedData
) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(indexed.folder, data_dir)
    world = build_world(data_dir, rollout_tick_s=9, rollout_lease_s=10)
    async with running(world) as client:
        await start(client)
        good = world.settings.flags_path.read_bytes()
        world.settings.flags_path.write_text("{")
        before = await latest(client)
    again = build_world(data_dir, rollout_tick_s=9, rollout_lease_s=10)
    async with running(again) as client:
        after = await latest(client)
        answered = (await ask(client, indexed.short_id, user_id="ann"))["evidence"]["sampler"]
        again.settings.flags_path.write_bytes(good)
        mended = await latest(client)

    assert "not valid JSON" in before["flags"]
    assert "The flags that were good last stay in force (version " in before["flags"]
    assert before["next"].startswith("Holds while the flag file cannot be used")
    assert before["next_at"] is None
    assert after["flags"].endswith("everyone gets `uniform`, for the reason ERROR.")
    assert answered["id"] == "uniform"
    assert mended["flags"].startswith("The flag file deals `bolt` to 50 %")
    assert mended["next"].startswith("Goes to 100 % by itself")


async def test_a_bad_control_is_left_over_http(tmp_path: Path, indexed: IndexedData) -> None:
    async with running(build_world(tmp_path / "data", indexed)) as client:
        address = f"{URL}/{(await start(client))['rollout_id']}/rollback"
        await client.post(address, json=BY)
        refused = await client.post(address, json=BY)
        reply = await client.post(address, json=BY | {"to": "uniform"})

    assert refused.status_code == 409
    assert "`--to uniform`" in refused.text
    assert reply.json()["flags"] == "Everyone gets `uniform` by the flag file."
    assert reply.json()["last_step"]["evidence"]["flags"]["edit"]["everyone"] == "uniform"
