"""/healthz, /readyz and /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.api.health import checked
from app.supervise.process_table import (
    TABLE_NAME,
    ProcessName,
    ProcessTable,
    ServiceRow,
    ServiceState,
    write_process_table,
)
from tests.app.answer_world import AnswerWorld, build_world, running
from tests.flags.flag_files import put, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path) -> AnswerWorld:
    return build_world(tmp_path / "data")


@pytest.fixture
async def client(world: AnswerWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as opened:
        yield opened


async def test_alive_is_said_whatever_is_away(
    client: httpx.AsyncClient, world: AnswerWorld
) -> None:
    world.encoder.is_away = world.llm.is_away = True
    reply = await client.get("/healthz")
    assert (reply.status_code, reply.json()) == (200, {"status": "alive"})


async def test_ready_names_every_part_and_the_flags(client: httpx.AsyncClient) -> None:
    reply = await client.get("/readyz")
    document = reply.json()

    assert reply.status_code == 200
    assert document["is_ready"] is True
    assert document["parts"] == {
        "encoder": {"is_ready": True, "detail": "fake@00000001", "process": ""},
        "llm": {"is_ready": True, "detail": "fake-llm", "process": ""},
    }
    assert document["kill_switch"]["is_on"] is False
    assert document["flags_alarm"] is None
    assert document["flag_version"].startswith("1@")


@pytest.mark.parametrize("part", ["encoder", "llm"])
async def test_a_part_that_is_away_makes_it_not_ready(
    client: httpx.AsyncClient, world: AnswerWorld, part: str
) -> None:
    assert (await client.get("/readyz")).status_code == 200
    getattr(world, part).is_away = True
    reply = await client.get("/readyz")

    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "5")
    assert reply.json()["is_ready"] is False
    assert reply.json()["parts"][part]["is_ready"] is False
    assert "not answering" in reply.json()["parts"][part]["detail"]


async def test_restarts_are_told_and_counted_as_the_supervisor_notes_them(
    client: httpx.AsyncClient, world: AnswerWorld
) -> None:
    row = ServiceRow(
        name="llm",
        state=ServiceState.RESTARTING,
        address="http://127.0.0.1:1",
        since=0.0,
        restarts=2,
        last_end="ended by signal 9",
    )
    itself = ProcessName(pid=1, start_ticks=1)
    write_process_table(
        world.gateway.base.layout.run / TABLE_NAME,
        ProcessTable(world="test", supervisor=itself, services=(row,)),
    )
    parts = (await client.get("/readyz")).json()["parts"]
    metrics = (await client.get("/metrics")).text

    told = "restarting; started again 2 x, the last one ended by signal 9"
    assert (parts["llm"]["process"], parts["encoder"]["process"]) == (told, "")
    assert restarts(metrics) == {"llm": 2.0, "encoder": 0.0, "selection": 0.0}


def restarts(metrics: str) -> dict[str, float]:
    return {
        sample.labels["process"]: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "framegate_process_restarts_total"
    }


async def test_a_check_that_hangs_is_given_up() -> None:
    async def hang() -> str:
        await asyncio.sleep(60)
        return "never"

    part = await checked(hang, timeout_s=0.01)
    assert (part.is_ready, part.detail) == (False, "no answer within 0.01 s")


async def test_ready_shows_the_flags_of_this_moment(
    client: httpx.AsyncClient, world: AnswerWorld
) -> None:
    before = (await client.get("/readyz")).json()["flag_version"]
    put(world.settings.flags_path, serving("shot"))
    after = (await client.get("/readyz")).json()["flag_version"]
    world.settings.flags_path.unlink()
    missing = (await client.get("/readyz")).json()

    assert before != after
    assert missing["flag_version"] == after
    assert missing["flags_alarm"].startswith("missing: ")


async def test_metrics_are_in_the_format_of_prometheus(client: httpx.AsyncClient) -> None:
    reply = await client.get("/metrics")
    families = {family.name for family in text_string_to_metric_families(reply.text)}

    assert reply.headers["Content-Type"].startswith("text/plain")
    assert {"framegate_answers", "framegate_decode_workers_started"} <= families


async def scraped(client: httpx.AsyncClient, name: str) -> float:
    text = (await client.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return families[name].samples[0].value


async def test_the_kill_switch_set_by_another_process_is_in_the_metrics(
    client: httpx.AsyncClient, world: AnswerWorld
) -> None:
    before = await scraped(client, "framegate_kill_switch_on")
    world.settings.kill_switch_path.write_text("not what the kill switch writes")
    after = await scraped(client, "framegate_kill_switch_on")

    assert (before, after) == (0.0, 1.0)


async def test_flags_that_are_refused_show_in_the_metrics_until_they_are_mended(
    client: httpx.AsyncClient, world: AnswerWorld
) -> None:
    good = world.settings.flags_path.read_bytes()
    before = await scraped(client, "framegate_flags_refused")
    world.settings.flags_path.write_bytes(good[:40])
    broken = await scraped(client, "framegate_flags_refused")
    world.settings.flags_path.write_bytes(good)
    mended = await scraped(client, "framegate_flags_refused")

    assert (before, broken, mended) == (0.0, 1.0, 0.0)
