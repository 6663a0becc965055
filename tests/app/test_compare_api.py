"""GET /v1/videos/{video_id}/compare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import cv2
import httpx
import numpy as np
import pytest

from app.api.compare import MAX_BUDGET, MAX_SAMPLERS, MEDIA_TYPES
from app.api.media_types import preferred
from app.compare_layout import WIDTH
from shadow.compare import temporal_distance_s
from tests.app.answer_world import (
    QUESTION,
    AnswerWorld,
    IndexedData,
    ask,
    assert_problem,
    build_world,
    running,
)
from tests.app.rogue_samplers import TARGETS

pytestmark = pytest.mark.anyio

BROWSER_IMAGE = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
VARIANT = "aks@t1=0.2,all_depth=3"
PNG_START = b"\x89PNG\r\n"


@pytest.fixture
def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    variants: dict[str, dict[str, object]] = {VARIANT: {}}
    return build_world(tmp_path / "data", indexed, sampler_options=variants)


@pytest.fixture
async def client(world: AnswerWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as made:
        yield made


def rogue_world(folder: Path, indexed: IndexedData) -> AnswerWorld:
    """With samplers that fail, each in its way."""
    targets = ",".join(TARGETS)
    return build_world(folder / "data", indexed, extra_samplers=targets, selection_deadline_s=2.0)


async def get(client: httpx.AsyncClient, video_id: str, **query: Any) -> httpx.Response:
    headers = query.pop("headers", {})
    query = {"question": QUESTION, "samplers": "uniform,aks", "budget": 4, **query}
    return await client.get(f"/v1/videos/{video_id}/compare", params=query, headers=headers)


async def compared(client: httpx.AsyncClient, video_id: str, **query: Any) -> dict[str, Any]:
    """The document of a comparison that must succeed."""
    reply = await get(client, video_id, **query)
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


async def test_each_sampler_chooses_what_it_would_choose_for_an_answer(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    document = await compared(client, indexed.long_id, samplers=f"uniform,{VARIANT},bolt")
    for sampler in document["samplers"]:
        answer = await ask(client, indexed.long_id, sampler=sampler["id"], budget=4)
        assert [frame["index"] for frame in sampler["frames"]] == [
            frame["index"] for frame in answer["evidence"]["frames"]
        ]
        assert sampler["failure"] is None
        assert sampler["latency_s"] > 0
    assert [sampler["id"] for sampler in document["samplers"]] == ["uniform", VARIANT, "bolt"]
    assert document["samplers"][1]["options"]["t1"] == 0.2


async def test_the_measures_are_those_of_the_shadow(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    document = await compared(client, indexed.long_id, samplers="aks,uniform")
    first, second = document["samplers"]
    times = [np.array([f["seconds"] for f in s["frames"]]) for s in (first, second)]
    cosines = [frame["cosine"] for frame in second["frames"]]

    assert (first["distance_s"], first["overlap"]) == (0.0, 1.0)
    assert second["distance_s"] == pytest.approx(temporal_distance_s(*times))
    assert second["relevance"] == pytest.approx(np.mean(cosines), abs=1e-4)
    assert second["scene_coverage"] == 1.0
    assert -1 <= second["redundancy"] <= 1


async def test_the_curve_holds_every_candidate_and_the_frames_lie_on_it(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    document = await compared(client, indexed.short_id)
    curve = document["similarity"]
    at = dict(zip(curve["seconds"], curve["cosines"], strict=True))

    assert len(curve["seconds"]) == document["num_candidates"] == 20
    assert (curve["lowest"], curve["highest"]) == (None, None)
    for frame in document["samplers"][0]["frames"]:
        assert at[round(frame["seconds"], 5)] == pytest.approx(frame["cosine"], abs=1e-4)
    assert document["scenes"] == [
        {"start_s": 0.0, "end_s": 5.0},
        {"start_s": 5.0, "end_s": 10.0},
    ]


async def test_a_sampler_that_fails_is_a_row_that_says_so(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = rogue_world(tmp_path, indexed)
    ids = "raising,first-frames,sleeping,unsorted"
    async with running(world) as client:
        document = await compared(client, indexed.short_id, samplers=ids)
    first, good, *others = document["samplers"]
    bad = [first, *others]

    assert [sampler["failure"]["kind"] for sampler in bad] == ["raised", "deadline", "contract"]
    assert bad[1]["latency_s"] == 2.0, "its deadline, without the start of a process"
    assert "rogue_samplers.py" not in str(document), "a traceback is for the logs alone"
    assert "out of memory" in first["failure"]["message"]
    for sampler in bad:
        assert sampler["frames"] == []
        assert sampler["relevance"] is sampler["distance_s"] is sampler["overlap"] is None
    assert len(good["frames"]) == 4
    assert good["relevance"] is not None
    assert good["distance_s"] is None, "there is nothing to measure from"
    assert world.counted("framegate_sampler_failures_total") == 0


async def test_a_sampler_that_does_not_announce_the_query_lacks_its_vector_as_in_an_answer(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(rogue_world(tmp_path, indexed)) as client:
        document = await compared(client, indexed.short_id, samplers="unannounced,aks")
        answer = await ask(client, indexed.short_id, sampler="unannounced")
    unannounced, aks = document["samplers"]
    answered = answer["evidence"]["sampler"]["fallback"]

    assert unannounced["failure"]["kind"] == answered["kind"] == "dependency"
    assert unannounced["failure"]["message"] == answered["message"]
    assert aks["failure"] is None


async def test_overruns_here_do_not_open_the_breaker_of_the_answers(
    tmp_path: Path, indexed: IndexedData
) -> None:
    [sleeping] = [target for target in TARGETS if target.endswith("Sleeping")]
    world = build_world(
        tmp_path / "data", indexed, extra_samplers=sleeping, selection_deadline_s=0.2
    )
    async with running(world) as client:
        kinds = []
        for _ in range(4):
            document = await compared(client, indexed.short_id, samplers="sleeping")
            kinds.append(document["samplers"][0]["failure"]["kind"])
        answer = await ask(client, indexed.short_id, sampler="sleeping")
    assert kinds == ["deadline", "deadline", "deadline", "breaker_open"]
    assert answer["evidence"]["sampler"]["fallback"]["kind"] == "deadline"


async def test_without_the_questions_vector_the_others_are_still_compared(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    world.encoder.is_away = True
    document = await compared(client, indexed.short_id)
    uniform, aks = document["samplers"]

    assert document["similarity"] is None
    assert "no query vector" in document["warnings"][0]
    assert len(uniform["frames"]) == 4
    assert uniform["relevance"] is None
    assert uniform["redundancy"] is not None
    assert aks["failure"]["kind"] == "dependency"
    picture = await get(client, indexed.short_id, format="png")
    assert picture.content.startswith(PNG_START)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "application/json"),
        ("", "application/json"),
        ("image/png", "image/png"),
        ("image/svg+xml, application/json;q=0.5", "image/svg+xml"),
        (BROWSER_IMAGE, "image/png"),
        ("text/html", "application/json"),
    ],
)
def test_without_a_format_the_accept_header_decides(accept: str, media_type: str) -> None:
    assert preferred(accept, tuple(MEDIA_TYPES.values())) == media_type


async def test_a_format_that_is_asked_for_decides(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    cases = (("json", "image/png"), ("svg", "application/json"), (None, "image/png"))
    for asked, accept in cases:
        query = {} if asked is None else {"format": asked}
        reply = await get(client, indexed.short_id, **query, headers={"Accept": accept})
        assert reply.status_code == 200, reply.text
        assert reply.headers["Content-Type"] == MEDIA_TYPES[asked or "png"]
        assert reply.headers["Vary"] == "Accept"
        assert reply.headers["Cache-Control"] == "no-store"


async def test_a_picture_lets_nothing_run_and_shows_the_videos_frames(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    document = await compared(client, indexed.short_id)
    png = await get(client, indexed.short_id, format="png")
    svg = await get(client, indexed.short_id, format="svg")
    pixels = cv2.imdecode(np.frombuffer(png.content, dtype=np.uint8), cv2.IMREAD_COLOR_RGB)
    num_frames = sum(len(sampler["frames"]) for sampler in document["samplers"])

    assert pixels is not None
    assert pixels.shape[1] == WIDTH
    assert svg.text.count("<image") == num_frames
    assert QUESTION in svg.text
    assert "no picture" not in svg.text
    for reply in (png, svg):
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert reply.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_picture_shows_the_document_that_was_made_just_before(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    document = await compared(client, indexed.short_id)
    svg = (await get(client, indexed.short_id, format="svg")).text
    for sampler in document["samplers"]:
        assert f"{sampler['latency_s'] * 1000:.1f} ms" in svg


async def test_one_comparison_is_made_at_a_time(
    client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    both = [get(client, indexed.short_id, format="png", wait_s=w) for w in (1, 2)]
    replies = await asyncio.gather(*both)
    assert sorted(reply.status_code for reply in replies) == [200, 429]
    again = await get(client, indexed.short_id)
    assert again.status_code == 200


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"samplers": "uniform,nonesuch"}, "unknown-sampler", "known: uniform, "),
        ({"samplers": "aks,aks"}, "invalid-request", "twice"),
        ({"samplers": ""}, "invalid-request", "query.samplers"),
        ({"samplers": ","}, "unknown-sampler", "no sampler ''"),
        ({"budget": 0}, "invalid-request", "query.budget"),
        ({"budget": MAX_BUDGET + 1}, "invalid-request", "query.budget"),
        ({"budget": "many"}, "invalid-request", "query.budget"),
        ({"format": "pdf"}, "invalid-request", "query.format"),
        ({"question": " "}, "invalid-request", "blank"),
        ({"question": "x" * 20_000}, "question-too-long", "20000 characters"),
        ({"wait_s": 1e9}, "invalid-request", "wait_s"),
        ({"buget": 4}, "invalid-request", "query.buget"),
    ],
)
async def test_a_wrong_request_is_refused_with_what_to_mend(
    client: httpx.AsyncClient, indexed: IndexedData, query: dict[str, Any], code: str, words: str
) -> None:
    problem = assert_problem(await get(client, indexed.short_id, **query), 422, code)
    assert words in problem["detail"]


async def test_too_many_samplers_are_refused(tmp_path: Path, indexed: IndexedData) -> None:
    options = {f"aks@{number}": {"all_depth": 1} for number in range(MAX_SAMPLERS + 1)}
    async with running(build_world(tmp_path / "data", indexed, sampler_options=options)) as client:
        reply = await get(client, indexed.short_id, samplers=",".join(options))
    problem = assert_problem(reply, 422, "invalid-request")
    assert f"at most {MAX_SAMPLERS}" in problem["detail"]


async def test_a_video_of_somebody_else_is_not_there(
    tmp_path: Path, client: httpx.AsyncClient, indexed: IndexedData
) -> None:
    assert_problem(await get(client, "0" * 64), 404, "video-not-found")
    other = build_world(tmp_path / "other", indexed, tenant="other")
    async with running(other) as stranger:
        assert_problem(await get(stranger, indexed.short_id), 404, "video-not-found")


async def test_a_video_that_is_being_indexed_is_not_ready(
    client: httpx.AsyncClient, world: AnswerWorld, tmp_path: Path, indexed: IndexedData
) -> None:
    world.encoder.gate.clear()
    derived = world.gateway.base.layout.derived(indexed.short_id)
    derived.rename(tmp_path / "evicted")
    reply = await get(client, indexed.short_id, wait_s=0)
    world.encoder.gate.set()

    assert_problem(reply, 409, "video-not-ready")
    assert int(reply.headers["Retry-After"]) >= 1


async def test_comparing_is_for_operators(tmp_path: Path, indexed: IndexedData) -> None:
    world = build_world(tmp_path / "data", indexed, operator_key="right")
    async with running(world) as client:
        refused = await get(client, indexed.short_id)
        key = {"Authorization": "Bearer right"}
        let_in = await get(client, indexed.short_id, headers=key)
    assert_problem(refused, 403, "operator-key-required")
    assert let_in.status_code == 200
