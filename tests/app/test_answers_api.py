"""POST and GET /v1/answers as JSON: the whole answer, every refusal, every recorded end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import LlmUnavailableError
from app.reduce.contract import ReducedTokens
from app.reduce.none import NoneReducer
from app.stages import Stages
from samplers.contract import FloatArray
from tests.app.answer_world import (
    QUESTION,
    AnswerWorld,
    IndexedData,
    ask,
    assert_problem,
    build_world,
    post,
    running,
    write_colours,
)
from tests.fakes import LABELS

pytestmark = pytest.mark.anyio

UNKNOWN_VIDEO = "0" * 64
STAGES = ["wait_for_index", "select_frames", "encode", "reduce"]


@pytest.fixture
async def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed)


@pytest.fixture
async def client(world: AnswerWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as opened:
        yield opened


async def test_an_answer_is_complete(client: httpx.AsyncClient, indexed: IndexedData) -> None:
    answer = await ask(client, indexed.long_id, user_id="ann")

    assert answer["video_id"] == indexed.long_id
    assert (answer["question"], answer["answer"]) == (QUESTION, "two cats")
    assert (answer["state"], answer["problem"]) == ("done", None)
    assert answer["usage"] == {"input_tokens": 7, "output_tokens": 2, "finish_reason": "stop"}
    assert re.fullmatch(r"[0-9a-f]{32}", answer["trace_id"])
    assert list(answer["timings_s"]) == [*STAGES, "generate", "total"]
    assert all(seconds >= 0 for seconds in answer["timings_s"].values())
    assert answer["timings_s"]["total"] == max(answer["timings_s"].values())


async def test_the_evidence_says_which_sampler_and_why(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    sampler = (await ask(client, indexed.long_id, user_id="ann"))["evidence"]["sampler"]

    assert (sampler["id"], sampler["version"], sampler["variant"]) == ("aks", "1", "aks")
    assert sampler["options"]["compat"] == "safe"
    assert sampler["reason"] == "SPLIT"
    assert sampler["flag_version"].startswith("1@")
    assert (sampler["error"], sampler["fallback"]) == (None, None)


async def test_the_evidence_names_frames_inside_the_clip_with_their_pictures(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    evidence = (await ask(client, indexed.long_id))["evidence"]

    assert len(evidence["frames"]) == evidence["budget"]["frames"] == 10
    seconds = [frame["seconds"] for frame in evidence["frames"]]
    assert seconds == sorted(set(seconds))
    assert seconds[0] >= 0
    assert seconds[-1] < 20.0
    for frame in evidence["frames"]:
        assert frame["index"] == frame["seconds"] * 2
        picture = await client.get(frame["picture"])
        assert picture.headers["Content-Type"] == "image/jpeg"
        assert picture.content.startswith(b"\xff\xd8")


async def test_the_evidence_holds_scenes_budget_tokens_and_what_was_looked_at(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    evidence = (await ask(client, indexed.long_id))["evidence"]

    assert [(s["start_s"], s["end_s"]) for s in evidence["scenes"]] == [
        (0.0, 5.0),
        (5.0, 10.0),
        (10.0, 15.0),
        (15.0, 20.0),
    ]
    assert evidence["budget"] == {"frames": 10, "limited_by": "video_seconds"}
    tokens = evidence["vision_tokens"]
    assert (tokens["before_reduction"], tokens["reducer"]) == (20, "merge")
    assert 0 < tokens["after_reduction"] < 20
    assert evidence["modalities"] == ["pictures"]
    assert (evidence["encoder"], evidence["llm"]) == ("fake@00000001", "fake-llm")
    assert evidence["profile"] == "demo"
    assert list(evidence["timings_s"]) == [*STAGES, "total"]


async def test_the_model_reads_notes_of_the_frames_that_the_evidence_names(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    evidence = (await ask(client, indexed.short_id))["evidence"]
    notes = world.llm.prompts[-1][-1].content

    assert QUESTION in notes
    assert any(label in notes for label in LABELS)
    named = {float(text) for text in re.findall(r"(\d+\.\d) s", notes)}
    assert named <= {frame["seconds"] for frame in evidence["frames"]}


async def test_the_second_asking_finds_the_query_vector_in_its_cache(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    first = (await ask(client, indexed.short_id))["evidence"]["caches"]
    second = (await ask(client, indexed.short_id))["evidence"]["caches"]

    assert (first["query_vectors"], second["query_vectors"]) == ("miss", "hit")
    assert first["features"] == "hit"
    assert len(world.encoder.queries) == 1


async def test_a_question_that_waited_for_the_index_says_so(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    new = await client.post("/v1/videos", content=write_colours(tmp_path / "new.mp4", 3.0))
    caches = (await ask(client, new.json()["video_id"]))["evidence"]["caches"]

    assert {caches["features"], caches["label_distributions"], caches["scenes"]} == {"miss"}


async def test_an_answer_can_be_read_again(client: httpx.AsyncClient, indexed: IndexedData) -> None:
    reply = await post(client, indexed.short_id)
    again = await client.get(reply.headers["Content-Location"])

    assert again.json() == reply.json()


async def test_an_unknown_answer_is_not_found(client: httpx.AsyncClient) -> None:
    assert_problem(await client.get("/v1/answers/none"), 404, "answer-not-found")


async def test_the_callers_trace_goes_on_in_the_answer(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
    body = {"video_id": indexed.short_id, "question": QUESTION}
    reply = await client.post("/v1/answers", json=body, headers=headers)

    assert reply.json()["trace_id"] == trace_id


async def test_a_question_from_any_script_passes_through(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    question = "Was ist das? 这是什么？ \u2028 🐈"
    assert (await ask(client, indexed.short_id, question=question))["question"] == question


async def test_a_lone_surrogate_is_refused(client: httpx.AsyncClient, indexed: IndexedData) -> None:
    body = f'{{"video_id": "{indexed.short_id}", "question": "\\ud800"}}'
    reply = await client.post(
        "/v1/answers", content=body, headers={"Content-Type": "application/json"}
    )
    assert_problem(reply, 422, "invalid-request")


@pytest.mark.parametrize(
    "fields",
    [
        {"samplr": "aks"},
        {"question": ""},
        {"question": "  \n"},
        {"question": None},
        {"budget": 0},
        {"max_tokens": 0},
        {"max_tokens": 513},
        {"temperature": 2.5},
        {"seed": -1},
        {"wait_s": -1},
        {"wait_s": 301},
        {"user_id": ""},
    ],
    ids=str,
)
async def test_a_request_out_of_bounds_is_refused(
    client: httpx.AsyncClient, indexed: IndexedData, fields: dict[str, Any]
) -> None:
    reply = await post(client, indexed.short_id, **fields)
    assert_problem(reply, 422, "invalid-request")


@pytest.mark.parametrize("field", ["temperature", "wait_s"])
async def test_a_number_that_is_none_is_refused(
    client: httpx.AsyncClient, indexed: IndexedData, field: str
) -> None:
    body = f'{{"video_id": "{indexed.short_id}", "question": "?", "{field}": NaN}}'
    reply = await client.post(
        "/v1/answers", content=body, headers={"Content-Type": "application/json"}
    )
    assert 400 <= reply.status_code < 500


async def test_a_video_id_that_is_none_is_refused(client: httpx.AsyncClient) -> None:
    problem = assert_problem(await post(client, "abc"), 422, "invalid-request")
    assert problem["errors"][0]["field"] == "body.video_id"


async def test_a_question_that_is_too_long_is_refused(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    reply = await post(client, indexed.short_id, question="why " * 501)
    assert_problem(reply, 422, "question-too-long")


async def test_a_question_that_leaves_no_room_for_a_frame_is_refused(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = build_world(tmp_path / "data", indexed, llm_context_tokens=1200)
    async with running(world) as client:
        reply = await post(client, indexed.short_id, question="why " * 400)
    assert_problem(reply, 422, "question-too-long")


async def test_an_unknown_video_is_not_found(client: httpx.AsyncClient) -> None:
    assert_problem(await post(client, UNKNOWN_VIDEO), 404, "video-not-found")


async def test_a_video_that_is_not_ready_in_time_is_a_conflict(
    client: httpx.AsyncClient, world: AnswerWorld, tmp_path: Path
) -> None:
    world.encoder.gate.clear()
    new = await client.post("/v1/videos", content=write_colours(tmp_path / "new.mp4", 3.0))
    reply = await post(client, new.json()["video_id"], wait_s=0)
    world.encoder.gate.set()

    problem = assert_problem(reply, 409, "video-not-ready")
    assert int(reply.headers["Retry-After"]) >= 1
    stored = (await client.get(problem["instance"])).json()
    assert stored["state"] == "failed"
    assert stored["problem"]["type"] == problem["type"]
    assert stored["trace_id"] == problem["trace_id"]


async def test_a_failed_video_answers_with_its_own_reason(client: httpx.AsyncClient) -> None:
    new = await client.post("/v1/videos", content=b"<html>not found</html>")
    reply = await post(client, new.json()["video_id"])

    assert_problem(reply, 422, "not-a-video")


async def test_a_budget_can_only_be_lowered(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    lower = (await ask(client, indexed.long_id, budget=3))["evidence"]
    higher = (await ask(client, indexed.long_id, budget=16))["evidence"]

    assert lower["budget"] == {"frames": 3, "limited_by": "request"}
    assert len(lower["frames"]) == 3
    assert higher["budget"] == {"frames": 10, "limited_by": "video_seconds"}


async def test_an_operator_names_the_sampler(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    sampler = (await ask(client, indexed.short_id, sampler="shot"))["evidence"]["sampler"]
    assert (sampler["id"], sampler["reason"], sampler["variant"]) == ("shot", "OVERRIDE", None)


async def test_only_an_operator_names_the_sampler(tmp_path: Path, indexed: IndexedData) -> None:
    world = build_world(tmp_path / "data", indexed, operator_key="secret")
    body = {"video_id": indexed.short_id, "question": QUESTION, "sampler": "shot"}
    async with running(world) as client:
        refused = await client.post("/v1/answers", json=body)
        headers = {"Authorization": "Bearer secret"}
        allowed = await client.post("/v1/answers", json=body, headers=headers)

    assert_problem(refused, 403, "operator-key-required")
    assert allowed.json()["evidence"]["sampler"]["id"] == "shot"


async def test_an_unknown_sampler_is_refused(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    reply = await post(client, indexed.short_id, sampler="nonesuch")
    assert_problem(reply, 422, "unknown-sampler")


@pytest.mark.parametrize("error_at", [0, 1])
async def test_a_language_model_that_is_away_is_a_503_that_says_when_to_retry(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData, error_at: int
) -> None:
    world.llm.error, world.llm.error_at = LlmUnavailableError(), error_at
    reply = await post(client, indexed.short_id)

    problem = assert_problem(reply, 503, "llm-unavailable")
    assert reply.headers["Retry-After"] == "5"
    stored = (await client.get(problem["instance"])).json()
    assert stored["state"] == "failed"
    assert stored["evidence"]["frames"]
    assert world.counted("framegate_llm_unavailable_total") == 1
    assert world.counted("framegate_answers_total", outcome="error") == 1


async def test_an_encoder_that_is_away_costs_the_sampler_not_the_answer(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    world.encoder.is_away = True
    evidence = (await ask(client, indexed.short_id))["evidence"]

    assert evidence["sampler"]["id"] == "uniform"
    assert evidence["sampler"]["fallback"]["kind"] == "dependency"
    assert "no query vector" in evidence["warnings"][0]


async def test_more_answers_than_the_bound_are_refused(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = build_world(tmp_path / "data", indexed, max_concurrent_answers=1)
    world.llm.hold()
    async with running(world) as client:
        first = asyncio.create_task(post(client, indexed.short_id))
        await world.llm.started.wait()
        second = await post(client, indexed.short_id)
        world.llm.release()
        assert (await first).status_code == 200
        third = await post(client, indexed.short_id)

    assert_problem(second, 429, "too-many-requests")
    assert "Retry-After" in second.headers
    assert third.status_code == 200


async def test_an_answer_that_a_stop_interrupted_has_failed_after_the_restart(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    catalogue = world.gateway.videos.catalogue
    catalogue.put_answer("a1", "default", indexed.short_id, QUESTION)
    before = (await client.get("/v1/answers/a1")).json()
    catalogue.fail_interrupted_answers()
    after = (await client.get("/v1/answers/a1")).json()

    assert (before["state"], before["problem"], before["trace_id"]) == ("running", None, None)
    assert after["state"] == "failed"
    assert after["problem"]["type"] == "urn:framegate:problem:unavailable"


class BrokenReducer(NoneReducer):
    def reduce(self, tokens: FloatArray) -> ReducedTokens:
        raise RuntimeError("a defect")


async def test_an_error_that_nobody_foresaw_is_recorded_as_failed(
    tmp_path: Path, indexed: IndexedData
) -> None:
    def break_it(stages: Stages) -> Stages:
        return replace(stages, reducer=BrokenReducer(NoneReducer.Options()))

    world = build_world(tmp_path / "data", indexed, mutate=break_it)
    async with running(world) as client:
        reply = await post(client, indexed.short_id)
        assert world.counted("framegate_answers_total", outcome="error") == 1
        assert world.counted("framegate_answers_total", outcome="cancelled") == 0

    assert_problem(reply, 500, "internal-error")
