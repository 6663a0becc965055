"""GET and PUT /v1/kill-switch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.answer_world import assert_problem, build_world, running

pytestmark = pytest.mark.anyio

URL = "/v1/kill-switch"
ON = {"is_on": True, "who": "ana", "why": "answers got worse since 14:00"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with running(build_world(tmp_path / "data")) as opened:
        yield opened


async def test_it_is_off_until_somebody_sets_it(client: httpx.AsyncClient) -> None:
    document = (await client.get(URL)).json()
    assert document.pop("effect") == "Everyone gets `aks` by the flag file."
    assert document == {"is_on": False, "who": "", "why": "", "at": ""}


async def test_it_keeps_who_set_it_why_and_when(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    put = (await client.put(URL, json=ON)).json()
    got = (await client.get(URL)).json()

    assert got == put
    assert {name: got[name] for name in ON} == ON
    assert got["at"].endswith("+00:00")
    assert "kill_switch.changed" in caplog.messages


async def test_it_can_be_lifted(client: httpx.AsyncClient) -> None:
    await client.put(URL, json=ON)
    assert (await client.put(URL, json=ON | {"is_on": False})).json()["is_on"] is False


@pytest.mark.parametrize(
    "change",
    [
        {"who": ""},
        {"why": ""},
        {"who": " "},
        {"why": "\n"},
        {"why": "x" * 1001},
        {"is_on": "perhaps"},
        {"until": "14:30"},
    ],
    ids=str,
)
async def test_a_request_that_says_too_little_or_too_much_is_refused(
    client: httpx.AsyncClient, change: dict[str, Any]
) -> None:
    assert_problem(await client.put(URL, json=ON | change), 422, "invalid-request")


async def test_it_is_for_operators(tmp_path: Path) -> None:
    world = build_world(tmp_path / "data", operator_key="secret")
    headers = {"Authorization": "Bearer secret"}
    async with running(world) as client:
        for reply in (await client.get(URL), await client.put(URL, json=ON)):
            assert_problem(reply, 403, "operator-key-required")
        assert (await client.get(URL, headers=headers)).json()["is_on"] is False
        assert (await client.put(URL, json=ON, headers=headers)).status_code == 200


async def test_a_switch_that_cannot_be_stored_says_so(tmp_path: Path) -> None:
    world = build_world(tmp_path / "data", kill_switch_file=Path("/proc/kill-switch.json"))
    async with running(world) as client:
        assert_problem(await client.put(URL, json=ON), 503, "unavailable")
