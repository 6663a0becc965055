"""Answers whose frames a model chose: by flag, with their cost; and when the model is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.scorer.spec import ScoreNamespace
from tests.app.answer_world import AnswerWorld, IndexedData, ask, build_world, running
from tests.app.model_samplers import TARGETS
from tests.app.scored_video import MODEL, by_brightness, pictures_of
from tests.app.shadow_world import comparisons, shadow_flags, shadow_world
from tests.fakes import FakeVlmServer, VlmReply
from tests.flags.flag_files import put, serving

pytestmark = pytest.mark.anyio

NUM_CANDIDATES = 40
BUDGET = 6
DEADLINE_S = 20.0


@pytest.fixture
def server() -> Iterator[FakeVlmServer]:
    with FakeVlmServer(by_brightness) as started:
        yield started


def world_of(folder: Path, indexed: IndexedData, url: str | None, **settings: Any) -> AnswerWorld:
    fields: dict[str, Any] = {
        "extra_samplers": ",".join(TARGETS),
        "model_selection_deadline_s": DEADLINE_S,
        "max_frames": BUDGET,
        **settings,
    }
    if url is not None:
        fields |= {"scorer_url": url, "scorer_model": MODEL}
    return build_world(folder / "data", indexed, **fields)


async def evidence_of(client: httpx.AsyncClient, video_id: str, **fields: Any) -> dict[str, Any]:
    evidence: dict[str, Any] = (await ask(client, video_id, **fields))["evidence"]
    return evidence


async def until_processes_run(client: httpx.AsyncClient, video_id: str) -> None:
    """On a busy machine they take longer to start than the short deadlines of some tests."""
    for _ in range(20):
        evidence = await evidence_of(client, video_id, sampler="brightest")
        if evidence["sampler"]["fallback"] is None:
            return
    raise AssertionError("no selection process started")


@pytest.mark.parametrize("sampler_id", ["m-llm", "brightest"])
async def test_a_flag_serves_a_sampler_that_asks_a_model_and_the_bill_is_in_the_evidence(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer, sampler_id: str
) -> None:
    world = world_of(tmp_path, indexed, server.url)
    put(world.settings.flags_path, serving(sampler_id))
    async with running(world) as client:
        answer = await ask(client, indexed.long_id)
        again = await evidence_of(client, indexed.long_id)
        world.gateway.ledger.writer.flush(5.0)
        records = world.gateway.ledger.ledger.selections_of(answer["answer_id"])
        counted = [
            world.counted("framegate_scorer_calls_total", attempt="first"),
            world.counted("framegate_scorer_wait_seconds_count"),
            world.counted("framegate_scorer_tokens_total", kind="input"),
            world.counted("framegate_cache_lookups_total", cache="model_scores", result="hit"),
            world.counted("framegate_cache_lookups_total", cache="model_scores", result="miss"),
        ]
    evidence = answer["evidence"]
    assert (evidence["sampler"]["id"], evidence["sampler"]["fallback"]) == (sampler_id, None)
    bill = evidence["scorer"]
    assert bill.pop("seconds") > 0
    assert bill == {
        "model": MODEL,
        "calls": NUM_CANDIDATES,
        "retried_calls": 0,
        "cached_scores": 0,
        "input_tokens": 100 * NUM_CANDIDATES,
        "output_tokens": NUM_CANDIDATES,
    }
    assert [record.model_calls for record in records] == [NUM_CANDIDATES]
    assert again["frames"] == evidence["frames"]
    assert (again["scorer"]["calls"], again["scorer"]["cached_scores"]) == (0, NUM_CANDIDATES)
    assert len(server.requests) == NUM_CANDIDATES
    assert counted == [NUM_CANDIDATES, 2, 100 * NUM_CANDIDATES, NUM_CANDIDATES, NUM_CANDIDATES]


async def test_the_frames_are_those_that_the_model_likes(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    world = world_of(tmp_path, indexed, server.url)
    async with running(world) as client:
        evidence = await evidence_of(client, indexed.long_id, sampler="brightest")
    # The second of the clip's four colours is nearly white: seconds 5 to 10.
    assert {5 <= frame["seconds"] < 10 for frame in evidence["frames"]} == {True}


async def test_a_sampler_that_asks_nobody_has_no_bill(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    world = world_of(tmp_path, indexed, server.url)
    async with running(world) as client:
        assert (await evidence_of(client, indexed.long_id, sampler="aks"))["scorer"] is None
    assert server.requests == []


async def test_a_model_that_is_away_is_a_dependency_and_uniform_answers(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    server.answer = lambda _: (503, {"message": "loading"})
    world = world_of(tmp_path, indexed, server.url)
    async with running(world) as client:
        evidence = await evidence_of(client, indexed.long_id, sampler="m-llm")
        failures = {"sampler": "m-llm", "kind": "dependency"}
        assert world.counted("framegate_sampler_failures_total", **failures) == 1
    assert evidence["sampler"]["id"] == "uniform"
    assert evidence["sampler"]["fallback"]["kind"] == "dependency"
    assert "loading" in evidence["sampler"]["fallback"]["message"]
    assert evidence["scorer"]["calls"] > 0


async def test_a_model_that_never_answers_costs_the_deadline_and_no_process(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    def hanging(body: dict[str, Any]) -> VlmReply:
        time.sleep(8)
        return by_brightness(body)

    world = world_of(tmp_path, indexed, server.url, model_selection_deadline_s=3.0)
    async with running(world) as client:
        await until_processes_run(client, indexed.short_id)
        server.answer = hanging
        started_s = time.monotonic()
        evidence = await evidence_of(client, indexed.long_id, sampler="m-llm")
        took_s = time.monotonic() - started_s
        restarts = world.counted("framegate_process_restarts_total", process="selection")
    assert evidence["sampler"]["fallback"]["kind"] == "dependency"
    assert evidence["scorer"]["calls"] > 0
    assert took_s < 8
    assert restarts == 0


async def test_a_sampler_that_hangs_beside_its_model_is_killed_at_the_longer_deadline(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    settings = {"selection_deadline_s": 0.5, "model_selection_deadline_s": 3.0}
    world = world_of(tmp_path, indexed, server.url, **settings)
    async with running(world) as client:
        await until_processes_run(client, indexed.short_id)
        evidence = await evidence_of(client, indexed.long_id, sampler="hangs-after-asking")
        await until_processes_run(client, indexed.short_id)
        after = await evidence_of(client, indexed.long_id, sampler="brightest")
    assert evidence["sampler"]["fallback"]["kind"] == "deadline"
    assert "3 s" in evidence["sampler"]["fallback"]["message"]
    assert after["sampler"]["fallback"] is None
    # What the killed process had been told is on the disk.
    assert after["scorer"]["cached_scores"] == NUM_CANDIDATES


async def test_a_sampler_that_fails_after_asking_has_its_bill_all_the_same(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    world = world_of(tmp_path, indexed, server.url)
    async with running(world) as client:
        evidence = await evidence_of(client, indexed.long_id, sampler="raises-after-asking")
    assert evidence["sampler"]["fallback"]["kind"] == "raised"
    assert evidence["scorer"]["calls"] == NUM_CANDIDATES


async def test_without_a_model_such_a_sampler_says_what_it_needs(
    tmp_path: Path, indexed: IndexedData, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(tmp_path, indexed, None)
    put(world.settings.flags_path, serving("m-llm"))
    async with running(world) as client:
        evidence = await evidence_of(client, indexed.long_id)
        listing = (await client.get("/v1/samplers")).json()["samplers"]
    fallback = evidence["sampler"]["fallback"]
    assert (fallback["sampler"], fallback["kind"]) == ("m-llm", "dependency")
    assert "FRAMEGATE_SCORER_URL" in fallback["message"]
    assert evidence["scorer"] is None
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert sum("'m-llm' cannot be served here" in one for one in warnings) == 1
    lacks = {sampler["id"]: sampler["lacks"] for sampler in listing}
    assert "FRAMEGATE_SCORER_URL" in lacks["m-llm"]
    assert "FRAMEGATE_SCORER_URL" in lacks["brightest"]
    assert lacks["aks"] is None


async def test_with_a_model_nothing_is_lacking(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    world = world_of(tmp_path, indexed, server.url)
    async with running(world) as client:
        listing = (await client.get("/v1/samplers")).json()["samplers"]
    asking = {sampler["id"] for sampler in listing if sampler["uses_scorer"]}
    assert {"m-llm", "brightest"} <= asking
    assert {sampler["lacks"] for sampler in listing} == {None}


async def test_more_questions_than_processes_wait_for_their_turn(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    world = world_of(tmp_path, indexed, server.url, model_selection_processes=1)
    async with running(world) as client:
        found = await asyncio.gather(
            *(
                evidence_of(client, indexed.long_id, sampler="brightest", question=f"Where is {n}?")
                for n in range(3)
            )
        )
    assert [evidence["sampler"]["fallback"] for evidence in found] == [None] * 3
    assert len(server.requests) == 3 * NUM_CANDIDATES


async def test_scores_go_with_their_video(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    world = world_of(tmp_path, indexed, server.url)
    layout = world.gateway.base.layout
    path = layout.model_scores(indexed.long_id, str(ScoreNamespace.ANSWERS))
    async with running(world) as client:
        await evidence_of(client, indexed.long_id, sampler="brightest")
        assert path.is_file()
        assert (await client.delete(f"/v1/videos/{indexed.long_id}")).status_code == 204
    assert not path.exists()
    assert list(layout.root.rglob("model-scores*")) == []


async def test_the_shadow_asks_for_itself_and_its_bill_is_in_the_comparison(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    flags = shadow_flags("uniform", "m-llm")
    settings = {"scorer_url": server.url, "scorer_model": MODEL, "scorer_concurrency": 8}
    world = shadow_world(tmp_path, indexed, flags, **settings)
    async with running(world) as client:
        answer = await ask(client, indexed.long_id)
        [line] = await comparisons(world)
        assert server.max_running <= 2
        served = await evidence_of(client, indexed.long_id, sampler="m-llm")
        calls = world.counted("framegate_shadow_model_calls_total", sampler="m-llm", side="shadow")
    assert answer["evidence"]["scorer"] is None
    control, shadow = line["control"], line["shadow"]
    assert (control["model_calls"], control["model_tokens"]) == (0, 0)
    assert (shadow["failure_kind"], shadow["model_calls"]) == (None, NUM_CANDIDATES)
    assert shadow["model_tokens"] == 101 * NUM_CANDIDATES
    assert calls == NUM_CANDIDATES
    assert served["scorer"]["cached_scores"] == 0


async def test_two_sides_that_ask_find_nothing_of_each_other(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    flags = shadow_flags("brightest", "m-llm")
    settings = {"scorer_url": server.url, "scorer_model": MODEL}
    world = shadow_world(tmp_path, indexed, flags, **settings, extra_samplers=",".join(TARGETS))
    async with running(world) as client:
        await ask(client, indexed.long_id)
        [line] = await comparisons(world)
    assert line["control"]["model_calls"] == line["shadow"]["model_calls"] == NUM_CANDIDATES


async def test_a_shadow_whose_model_is_away_fails_as_a_dependency(
    tmp_path: Path, indexed: IndexedData, server: FakeVlmServer
) -> None:
    server.answer = lambda body: (500, {"message": f"{len(pictures_of(body))} is too many"})
    flags = shadow_flags("uniform", "m-llm")
    settings = {"scorer_url": server.url, "scorer_model": MODEL}
    world = shadow_world(tmp_path, indexed, flags, **settings)
    async with running(world) as client:
        await ask(client, indexed.long_id)
        [line] = await comparisons(world)
    assert line["shadow"]["failure_kind"] == "dependency"
    assert line["shadow"]["model_calls"] > 0


async def test_a_rollout_of_a_sampler_that_lacks_its_model_does_not_start(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = world_of(tmp_path, indexed, None)
    body = {
        "candidate": "m-llm",
        "guards": ["sampler_failure<=1%", "model_calls<=100"],
        "who": "ana",
        "why": "it scored better offline",
    }
    async with running(world) as client:
        reply = await client.post("/v1/rollouts", json=body)
    assert reply.status_code == 409
    assert "`m-llm` cannot be served here" in reply.text
    assert "FRAMEGATE_SCORER_URL" in reply.text
    assert "would always be 0" not in reply.text
