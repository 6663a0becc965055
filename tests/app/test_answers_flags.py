"""Which sampler answers: flag file, kill switch and samplers that fail, seen from outside."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.answer_world import AnswerWorld, IndexedData, ask, build_world, running
from tests.app.rogue_samplers import TARGETS
from tests.flags.flag_files import put
from tests.flags.flag_files import rollout as rollout_of
from tests.flags.flag_files import serving as serving_sampler

pytestmark = pytest.mark.anyio

SWITCH_ON = {"is_on": True, "who": "ana", "why": "answers got worse"}


@pytest.fixture
async def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed)


@pytest.fixture
async def client(world: AnswerWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as opened:
        yield opened


async def sampler_of(client: httpx.AsyncClient, video_id: str, **fields: Any) -> dict[str, Any]:
    """What the evidence of one answer says about its sampler."""
    sampler: dict[str, Any] = (await ask(client, video_id, **fields))["evidence"]["sampler"]
    return sampler


async def test_a_changed_flag_file_flips_the_sampler_of_the_next_answer(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    path = world.settings.flags_path
    seen = []
    for sampler_id in ("bolt", "shot", "uniform"):
        put(path, serving_sampler(sampler_id))
        seen.append((await sampler_of(client, indexed.short_id))["id"])

    assert seen == ["bolt", "shot", "uniform"]


async def test_an_older_file_put_back_flips_it_back(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData, tmp_path: Path
) -> None:
    path, kept = world.settings.flags_path, tmp_path / "yesterday.json"
    put(path, serving_sampler("uniform"))
    shutil.copy2(path, kept)
    os.utime(kept, (1_000_000_000, 1_000_000_000))
    put(path, serving_sampler("bolt"))
    before = await sampler_of(client, indexed.short_id)
    kept.replace(path)
    after = await sampler_of(client, indexed.short_id)

    assert (before["id"], after["id"]) == ("bolt", "uniform")
    assert path.stat().st_mtime == 1_000_000_000


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff\xfe"])
async def test_a_broken_flag_file_keeps_the_last_good_flags_and_raises_an_alarm(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData, content: bytes
) -> None:
    put(world.settings.flags_path, serving_sampler("bolt"))
    assert (await client.get("/readyz")).json()["flags_alarm"] is None
    put(world.settings.flags_path, content)
    sampler = await sampler_of(client, indexed.short_id)
    ready = await client.get("/readyz")

    assert sampler["id"] == "bolt"
    assert ready.status_code == 200
    assert ready.json()["flags_alarm"].startswith("invalid: ")
    assert world.counted("framegate_flags_alarms_total") == 1


async def test_the_same_user_keeps_the_same_sampler(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    put(world.settings.flags_path, rollout_of(50))
    users = [f"user-{number}" for number in range(8)]
    first = {u: (await sampler_of(client, indexed.short_id, user_id=u))["id"] for u in users}
    second = {u: (await sampler_of(client, indexed.short_id, user_id=u))["id"] for u in users}

    assert first == second
    assert set(first.values()) == {"bolt", "uniform"}


async def test_the_kill_switch_decides_the_very_next_answer(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    before = await sampler_of(client, indexed.short_id, user_id="ann")
    assert (await client.put("/v1/kill-switch", json=SWITCH_ON)).status_code == 200
    during = await sampler_of(client, indexed.short_id, user_id="ann")
    await client.put("/v1/kill-switch", json=SWITCH_ON | {"is_on": False})
    after = await sampler_of(client, indexed.short_id, user_id="ann")

    assert [s["id"] for s in (before, during, after)] == ["aks", "uniform", "aks"]
    assert during["reason"] == "KILL_SWITCH"
    assert during["fallback"] is None


async def test_the_kill_switch_beats_the_operators_override(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    await client.put("/v1/kill-switch", json=SWITCH_ON)
    assert (await sampler_of(client, indexed.short_id, sampler="bolt"))["id"] == "uniform"


async def test_the_kill_switch_is_shown_and_survives_a_restart(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(build_world(tmp_path / "data", indexed)) as client:
        await client.put("/v1/kill-switch", json=SWITCH_ON)
    restarted = build_world(tmp_path / "data", indexed)
    async with running(restarted) as client:
        shown = (await client.get("/readyz")).json()["kill_switch"]
        sampler = await sampler_of(client, indexed.short_id)
        scraped = (await client.get("/metrics")).text

    assert (shown["is_on"], shown["who"], shown["why"]) == (True, "ana", "answers got worse")
    assert sampler["reason"] == "KILL_SWITCH"
    assert re.search(r"^framegate_kill_switch_on(\{.*\})? 1\.0$", scraped, re.MULTILINE)


async def test_the_log_says_what_was_decided_and_what_was_looked_at(
    client: httpx.AsyncClient, indexed: IndexedData, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        answer = await ask(client, indexed.short_id, user_id="ann@example.org")
    members = {r.getMessage(): r.__dict__ for r in caplog.records if r.name.startswith("app.")}

    assert {"feature_flag.evaluation", "answer.selected", "answer.finished"} <= members.keys()
    assert "ann@example.org" not in str(members)
    assert answer["question"] not in str(members)
    assert answer["answer_id"] in str(members["answer.selected"])
    indices = [frame["index"] for frame in answer["evidence"]["frames"]]
    assert str(indices) in str(members["answer.selected"])


@pytest.mark.parametrize(
    ("sampler_id", "kind"),
    [("raising", "raised"), ("unsorted", "contract"), ("floats", "contract")],
)
async def test_a_sampler_that_fails_is_answered_by_uniform_and_counted(
    rogues: tuple[AnswerWorld, httpx.AsyncClient],
    indexed: IndexedData,
    sampler_id: str,
    kind: str,
) -> None:
    world, client = rogues
    put(world.settings.flags_path, serving_sampler(sampler_id))
    answer = await ask(client, indexed.short_id)
    sampler = answer["evidence"]["sampler"]

    assert answer["answer"] == "two cats"
    assert sampler["id"] == "uniform"
    assert (sampler["fallback"]["sampler"], sampler["fallback"]["kind"]) == (sampler_id, kind)
    failed = "framegate_sampler_failures_total"
    assert world.counted(failed, sampler=sampler_id, kind=kind) == 1
    assert world.counted("framegate_sampler_fallbacks_total", sampler=sampler_id) == 1


async def test_a_sampler_that_sleeps_is_answered_by_uniform_then_rested(
    rogues: tuple[AnswerWorld, httpx.AsyncClient], indexed: IndexedData
) -> None:
    world, client = rogues
    put(world.settings.flags_path, serving_sampler("sleeping"))
    kinds = [(await sampler_of(client, indexed.short_id))["fallback"]["kind"] for _ in range(4)]

    assert kinds == ["deadline", "deadline", "deadline", "breaker_open"]
    failed = "framegate_sampler_failures_total"
    assert world.counted(failed, sampler="sleeping", kind="deadline") == 3


async def test_an_outside_sampler_that_behaves_answers(
    rogues: tuple[AnswerWorld, httpx.AsyncClient], indexed: IndexedData
) -> None:
    world, client = rogues
    put(world.settings.flags_path, serving_sampler("first-frames"))
    evidence = (await ask(client, indexed.short_id))["evidence"]

    assert evidence["sampler"]["fallback"] is None
    assert evidence["sampler"]["id"] == "first-frames"
    assert [frame["index"] for frame in evidence["frames"]] == [0, 1, 2, 3, 4]


@pytest.fixture
async def rogues(
    tmp_path: Path, indexed: IndexedData
) -> AsyncIterator[tuple[AnswerWorld, httpx.AsyncClient]]:
    """A gateway with outside samplers that misbehave, and one that does not."""
    world = build_world(
        tmp_path / "data", indexed, extra_samplers=",".join(TARGETS), selection_deadline_s=0.5
    )
    async with running(world) as client:
        yield world, client
