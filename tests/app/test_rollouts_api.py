"""Rollouts over HTTP, on a whole gateway."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.stores.rows import VideoStatus
from flags.flag_edit import read_serving
from flags.rollout_changes import EDIT_S
from tests.app.answer_world import (
    AnswerWorld,
    IndexedData,
    ask,
    assert_problem,
    build_world,
    put_flags,
    running,
)
from tests.flags.flag_files import serving

pytestmark = pytest.mark.anyio

URL = "/v1/rollouts"
BEGUN_S = EDIT_S + 0.1
"""After an edit of the flag file, answers count for the new stage."""
BY = {"who": "ana", "why": "better on our questions"}
BLANK = {"who": " ", "why": "so"}
QUICK = {
    "candidate": "bolt",
    "stages": [50, 100],
    "dwell_s": 0,
    "min_users": 2,
    "min_answers": 2,
    "user_answers": 1,
    "guards": ["sampler_failure<=50%"],
    **BY,
}


def make(tmp_path: Path, indexed: IndexedData, **settings: Any) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed, rollout_tick_s=0.05, **settings)


async def start(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    reply = await client.post(URL, json=QUICK | {"dwell_s": 3600} | changes)
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


async def command(client: httpx.AsyncClient, rollout_id: str, name: str, **more: Any) -> Any:
    reply = await client.post(f"{URL}/{rollout_id}/{name}", json=BY | more)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def sampler_of(client: httpx.AsyncClient, indexed: IndexedData, user: str) -> dict[str, Any]:
    answer = await ask(client, indexed.short_id, user_id=user)
    found: dict[str, Any] = answer["evidence"]["sampler"]
    return found


async def until(is_true: Callable[[dict[str, Any]], bool], client: httpx.AsyncClient) -> Any:
    """The latest rollout's document, once it is so."""
    deadline = time.monotonic() + 20
    while True:
        [summary, *_] = (await client.get(URL)).json()["rollouts"]
        document = (await client.get(f"{URL}/{summary['rollout_id']}")).json()
        if is_true(document):
            return document
        assert time.monotonic() < deadline, document
        await asyncio.sleep(0.05)


async def test_a_start_is_in_the_file_and_in_the_log_before_the_reply(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    async with running(world) as client:
        started = await start(client)
        served = read_serving(
            world.settings.flags_path.read_bytes(), frozenset({"aks", "bolt", "uniform"})
        )
        history = (await client.get(f"{URL}/{started['rollout_id']}/history")).json()["steps"]
        dealt = {(await sampler_of(client, indexed, f"u{n}"))["id"] for n in range(8)}

    assert served.arms is not None
    assert (served.arms.candidate, served.arms.control, served.arms.weight) == ("bolt", "aks", 50)
    assert (started["state"], started["stage"], started["weight"]) == ("running", 1, 50)
    assert [step["kind"] for step in history] == ["started"]
    assert history[0]["who"] == "ana"
    assert dealt == {"aks", "bolt"}


async def test_a_good_candidate_gets_everyone_untouched_by_hand(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    async with running(world) as client:
        await start(client, dwell_s=0)
        await asyncio.sleep(BEGUN_S)
        before: dict[str, str] = {}
        for number in range(24):
            before[f"u{number}"] = (await sampler_of(client, indexed, f"u{number}"))["id"]
        raised = await until(lambda rollout: bool(rollout["stage"] == 2), client)
        await asyncio.sleep(BEGUN_S)
        after = {user: (await sampler_of(client, indexed, user))["id"] for user in before}
        completed = await until(lambda rollout: bool(rollout["state"] == "completed"), client)
        anyone = (await ask(client, indexed.short_id))["evidence"]["sampler"]
        counted = {
            kind: world.counted("framegate_rollout_steps_total", kind=kind)
            for kind in ("started", "advanced", "completed", "rolled_back")
        }
        num_passed = world.counted("framegate_rollout_guard_verdicts_total", verdict="pass")
        weight = world.counted("framegate_rollout_weight")

    assert raised["weight"] == 100
    assert set(before.values()) == {"aks", "bolt"}
    assert set(after.values()) == {"bolt"}
    assert completed["weight"] == 100
    assert completed["flags"] == "Everyone gets `bolt` by the flag file."
    assert anyone["id"] == "bolt"
    assert counted == {"started": 1, "advanced": 1, "completed": 1, "rolled_back": 0}
    assert num_passed > 0
    assert weight == 0


async def test_the_commands_do_what_they_say_and_say_what_comes_next(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(make(tmp_path, indexed)) as client:
        rollout_id = (await start(client, stages=[1, 25]))["rollout_id"]
        advanced = await command(client, rollout_id, "advance")
        paused = await command(client, rollout_id, "pause")
        resumed = await command(client, rollout_id, "resume")
        rolled_back = await command(client, rollout_id, "rollback")
        steps = (await client.get(f"{URL}/{rollout_id}/history")).json()["steps"]
        served = await sampler_of(client, indexed, "u1")

    assert advanced["weight"] == 25
    assert "framegate rollout advance" in advanced["next"]
    assert paused["state"] == "paused"
    assert "framegate rollout resume" in paused["next"]
    assert resumed["state"] == "running"
    assert (rolled_back["state"], rolled_back["weight"]) == ("rolled_back", 0)
    assert rolled_back["started_by"] == "ana"
    assert rolled_back["started"] == steps[0]["at"]
    assert rolled_back["last_step"]["new_weight"] == 0
    assert [step["sequence"] for step in steps] == [1, 2, 3, 4, 5]
    assert served["id"] == "aks"


@pytest.mark.parametrize("way", ["command", "flag", "kill switch"])
async def test_after_a_rollback_the_next_answer_obeys_and_nothing_else_changes(
    tmp_path: Path, indexed: IndexedData, way: str
) -> None:
    world = make(tmp_path, indexed)
    questions, videos = world.gateway.questions, world.gateway.videos
    async with running(world) as client:
        rollout_id = (await start(client, stages=[100]))["rollout_id"]
        assert (await sampler_of(client, indexed, "u1"))["id"] == "bolt"
        before = (
            videos.features.cached_bytes,
            list(world.encoder.rows),
            len(world.encoder.queries),
        )
        process = (world.gateway.base.encoder, world.gateway.base.llm, questions.stages.reducer)
        if way == "command":
            await command(client, rollout_id, "rollback")
        elif way == "flag":
            put_flags(world.settings.flags_path, serving("aks"))
        else:
            await client.put("/v1/kill-switch", json={"is_on": True, **BY})
        obeyed = await sampler_of(client, indexed, "u1")
        after = (videos.features.cached_bytes, list(world.encoder.rows), len(world.encoder.queries))
        noticed = await until(lambda rollout: bool(rollout["state"] != "running"), client)

    assert obeyed["id"] == ("uniform" if way == "kill switch" else "aks")
    assert after == before
    assert process == (world.gateway.base.encoder, world.gateway.base.llm, questions.stages.reducer)
    assert noticed["state"] == ("rolled_back" if way == "command" else "paused")


async def test_a_failing_candidate_is_rolled_back_by_its_guard(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(
        tmp_path,
        indexed,
        extra_samplers="tests.app.rogue_samplers:Raising",
    )
    async with running(world) as client:
        await start(client, candidate="raising", stages=[50], guards=["sampler_failure<=1%"])
        for number in range(40):
            await ask(client, indexed.short_id, user_id=f"u{number}")
        rolled_back = await until(lambda rollout: rollout["state"] == "rolled_back", client)
        served = await sampler_of(client, indexed, "u1")

    assert rolled_back["last_step"]["who"] == "framegate"
    assert "sampler_failure" in rolled_back["reason"]
    assert rolled_back["last_step"]["evidence"]["report"]["verdict"] == "fail"
    assert served["id"] == "aks"


async def test_a_refusal_names_everything_that_is_in_the_way(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(make(tmp_path, indexed)) as client:
        reply = await client.post(
            URL,
            json=QUICK
            | {
                "candidate": "aks",
                "guards": ["answer_agreement>=80%", "model_calls<=1", "offline_score>=1x"],
            },
        )
        refused = assert_problem(reply, 409, "rollout-refused")
        unknown = await client.get(f"{URL}/nonesuch")
        bad_guard = await client.post(URL, json=QUICK | {"guards": ["speed<=1"]})
        (tmp_path / "data" / "flags.json").unlink()
        flagless = await client.post(URL, json=QUICK)

    for said in ("Everyone gets `aks` already", "video.sampler.shadow", "model_calls"):
        assert sum(said in reason for reason in refused["reasons"]) == 1
    assert refused["detail"] == " ".join(refused["reasons"])
    assert_problem(unknown, 404, "rollout-not-found")
    problem = assert_problem(bad_guard, 422, "invalid-request")
    assert "no figure `speed`" in json.dumps(problem)
    assert "no flag file" in assert_problem(flagless, 409, "rollout-refused")["detail"]


async def test_too_few_videos_with_features_refuse_the_start(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    async with running(world) as client:
        world.encoder.encoder_id = "fake@00000002"
        reply = await client.post(URL, json=QUICK)
        problem = assert_problem(reply, 409, "rollout-refused")
        catalogue = world.gateway.videos.catalogue
        statuses = {catalogue.find_video(one).status for one in catalogue.video_ids()}  # type: ignore[union-attr] # listed
    assert "2 of the 2 latest videos lack features" in problem["detail"]
    assert statuses == {VideoStatus.READY}


async def test_a_flag_file_that_is_broken_names_the_kill_switch(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    async with running(world) as client:
        rollout_id = (await start(client))["rollout_id"]
        world.settings.flags_path.write_text("{")
        reply = await client.post(f"{URL}/{rollout_id}/rollback", json=BY)
        shown = (await client.get(f"{URL}/{rollout_id}")).json()
        await client.put("/v1/kill-switch", json={"is_on": True, **BY})
        killed = (await client.get(f"{URL}/{rollout_id}")).json()

    problem = assert_problem(reply, 409, "flag-file-unusable")
    assert "framegate kill-switch on" in problem["action"]
    assert shown["flags"].startswith("The flag file cannot be used")
    assert killed["flags"].startswith("The kill switch is on, everyone gets `uniform`")


async def test_the_kill_switch_says_what_becomes_of_the_rollout(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    async with running(world) as client:
        rollout_id = (await start(client))["rollout_id"]
        on = (await client.put("/v1/kill-switch", json={"is_on": True, **BY})).json()
        await until(lambda rollout: bool(rollout["state"] == "paused"), client)
        still_on = (await client.get("/v1/kill-switch")).json()
        off = (await client.put("/v1/kill-switch", json={"is_on": False, **BY})).json()
        shown = (await client.get(f"{URL}/{rollout_id}")).json()
        await command(client, rollout_id, "rollback")
        without = (await client.get("/v1/kill-switch")).json()

    assert on["effect"].startswith("Once it is off: The flag file deals `bolt` to 50 %")
    assert f"Rollout {rollout_id} pauses, and its users get `bolt` again" in on["effect"]
    assert "stays paused" in still_on["effect"]
    assert f"Rollout {rollout_id} is paused with 50 % of the users" in off["effect"]
    assert "`framegate rollout rollback` if that is not wanted" in off["effect"]
    assert shown["reason"].startswith("The kill switch was set (ana: ")
    assert without["effect"] == "Everyone gets `aks` by the flag file."


async def test_they_are_for_operators(tmp_path: Path, indexed: IndexedData) -> None:
    world = make(tmp_path, indexed, operator_key="secret")
    async with running(world) as client:
        calls = [
            client.get(URL),
            client.post(URL, json=QUICK),
            client.get(f"{URL}/x/history"),
            client.post(f"{URL}/x/rollback", json=BY),
            client.post("/v1/offline-scores", json={}),
        ]
        for call in calls:
            assert_problem(await call, 403, "operator-key-required")


async def test_who_and_why_must_be_said(tmp_path: Path, indexed: IndexedData) -> None:
    async with running(make(tmp_path, indexed)) as client:
        rollout_id = (await start(client))["rollout_id"]
        for body in ({"who": "ana"}, {"why": "so"}, BLANK, {**BY, "when": 1}):
            reply = await client.post(f"{URL}/{rollout_id}/pause", json=body)
            assert_problem(reply, 422, "invalid-request")
        padded = await client.post(f"{URL}/{rollout_id}/pause", json={"who": " bo ", "why": " so "})
    step = padded.json()["last_step"]
    assert (step["who"], step["why"]) == ("bo", "so")


@pytest.mark.parametrize(
    "change",
    [{"dwell_s": 1e308}, {"user_window_s": 1e308}, {"min_users": 10**30}, {"user_answers": 10**30}],
)
async def test_numbers_that_no_calendar_and_no_database_holds_are_refused(
    tmp_path: Path, indexed: IndexedData, change: dict[str, float]
) -> None:
    score = {"sampler": "aks", "score": 0.5, "dataset": "ours", "num_questions": 10**30, **BY}
    async with running(make(tmp_path, indexed)) as client:
        assert_problem(await client.post(URL, json=QUICK | change), 422, "invalid-request")
        reply = await client.post("/v1/offline-scores", json=score)
        assert_problem(reply, 422, "invalid-request")
        assert (await client.get(URL)).json() == {"rollouts": []}


async def test_an_offline_score_makes_its_guard_possible(
    tmp_path: Path, indexed: IndexedData
) -> None:
    score = {"dataset": "ours", "num_questions": 200, **BY}
    async with running(make(tmp_path, indexed)) as client:
        without = await client.post(
            URL, json=QUICK | {"guards": ["offline_score>=1x", "fallback<=5%"]}
        )
        for sampler, value in (("bolt", 0.7), ("aks", 0.6)):
            reply = await client.post(
                "/v1/offline-scores", json={"sampler": sampler, "score": value, **score}
            )
            assert reply.status_code == 201, reply.text
        listed = (await client.get("/v1/offline-scores")).json()["scores"]
        unknown = await client.post(
            "/v1/offline-scores", json={"sampler": "nonesuch", "score": 1, **score}
        )
        await start(client, guards=["offline_score>=1x", "fallback<=5%"])

    problem = assert_problem(without, 409, "rollout-refused")
    assert "framegate rollout score bolt" in problem["detail"]
    assert [(one["sampler"], one["score"]) for one in listed] == [("bolt", 0.7), ("aks", 0.6)]
    assert_problem(unknown, 422, "unknown-sampler")
