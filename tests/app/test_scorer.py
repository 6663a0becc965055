"""app/scorer/frame_scorer.py against a real HTTP server on the loopback interface."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from app.scorer.backend import ScorerBackend
from app.scorer.spec import ScoreNamespace
from samplers.contract import FrameScorer, ScorerUnavailableError
from tests.app.scored_video import (
    MODEL,
    QUERY,
    ScoredWorld,
    backend_of,
    by_brightness,
    pictures_of,
    texts_of,
)
from tests.fakes import FakeVlmServer, VlmReply, vlm_answer

ROWS = (3, 40, 99)


@pytest.fixture
def world(tmp_path: Path) -> ScoredWorld:
    return ScoredWorld(tmp_path)


@pytest.fixture
def server() -> Iterator[FakeVlmServer]:
    with FakeVlmServer(by_brightness) as running:
        yield running


@pytest.fixture
def backend(server: FakeVlmServer) -> Iterator[ScorerBackend]:
    made = backend_of(server.url)
    yield made
    made.close()


def test_each_row_gets_the_probability_that_its_picture_earns(
    world: ScoredWorld, backend: ScorerBackend
) -> None:
    scorer: FrameScorer = world.scorer(backend)
    scores = scorer.score(world.handle, QUERY, ROWS)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, [2 * row / 255 for row in ROWS], atol=0.01)


def test_a_call_shows_one_small_picture_after_the_question_and_asks_for_one_token(
    world: ScoredWorld, server: FakeVlmServer
) -> None:
    backend = backend_of(server.url + "/v1/", picture_px=32, api_key="secret")
    world.scorer(backend).score(world.handle, QUERY, [50])
    backend.close()
    [body] = server.requests
    assert {name: body[name] for name in body if name != "messages"} == {
        "model": MODEL,
        "temperature": 0,
        "max_tokens": 1,
        "logprobs": True,
        "top_logprobs": 20,
    }
    assert [part["type"] for part in body["messages"][0]["content"]] == [
        "text",
        "image_url",
        "text",
    ]
    assert QUERY in texts_of(body)[0]
    assert [pixels.shape for pixels in pictures_of(body)] == [(24, 32, 3)]
    assert server.headers[0]["authorization"] == "Bearer secret"
    assert "secret" not in repr(backend.spec)


def test_all_calls_about_one_question_begin_alike(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    world.scorer(backend).score(world.handle, QUERY, ROWS)
    assert len({texts_of(body)[0] for body in server.requests}) == 1


def test_a_picture_that_is_small_enough_is_sent_as_it_is_stored(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    world.scorer(backend).score(world.handle, QUERY, [7])
    [pixels] = pictures_of(server.requests[0])
    assert pixels.shape == (48, 64, 3)


def test_sets_are_scored_by_one_call_each_that_shows_all_of_their_frames(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    scores = world.scorer(backend).score_sets(world.handle, QUERY, [(0, 98), (10,)])
    np.testing.assert_allclose(scores, [98 / 255, 20 / 255], atol=0.01)
    assert sorted(len(pictures_of(body)) for body in server.requests) == [1, 2]


def test_ranges_are_rated_by_one_call_that_numbers_the_frames(world: ScoredWorld) -> None:
    text = '{"1-2": 4}'
    with FakeVlmServer(lambda _: vlm_answer(text)) as server:
        backend = backend_of(server.url)
        assert world.scorer(backend).rate_ranges(world.handle, QUERY, range(60)) == text
        backend.close()
    [body] = server.requests
    assert body["max_tokens"] == 256
    assert "logprobs" not in body
    assert len(pictures_of(body)) == 60
    assert texts_of(body)[1:61] == [f"Frame {number}:" for number in range(1, 61)]


def test_the_trace_context_goes_along(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("select") as span:
        world.scorer(backend).score(world.handle, QUERY, [1])
    trace_id = trace.format_trace_id(span.get_span_context().trace_id)
    assert trace_id in server.headers[0]["traceparent"]


def test_calls_go_out_together_but_never_more_than_allowed(world: ScoredWorld) -> None:
    def slow(body: dict[str, Any]) -> VlmReply:
        time.sleep(0.05)
        return by_brightness(body)

    with FakeVlmServer(slow) as server:
        backend = backend_of(server.url, concurrency=4)
        world.scorer(backend).score(world.handle, QUERY, range(24))
        backend.close()
    assert len(server.requests) == 24
    assert 1 < server.max_running <= 4


def test_a_second_selection_finds_the_scores_of_the_first(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    first = world.scorer(backend)
    scores = first.score(world.handle, QUERY, ROWS)
    second = world.scorer(backend)
    again = second.score(world.handle, QUERY, [*ROWS, 5])
    np.testing.assert_array_equal(again[:3], scores)
    assert len(server.requests) == 4
    assert (first.cost.calls, first.cost.cached_scores) == (3, 0)
    assert (second.cost.calls, second.cost.cached_scores) == (1, 3)
    assert (first.cost.input_tokens, first.cost.output_tokens) == (300, 3)
    assert first.cost.model_id == MODEL
    assert first.cost.seconds > 0


def test_another_question_and_the_shadow_find_nothing(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    world.scorer(backend).score(world.handle, QUERY, ROWS)
    world.scorer(backend).score(world.handle, "Another question?", ROWS)
    shadow = world.scorer(backend, namespace=ScoreNamespace.SHADOW)
    shadow.score(world.handle, QUERY, ROWS)
    assert shadow.cost.cached_scores == 0
    assert len(server.requests) == 9


def test_a_rating_is_cached_too(world: ScoredWorld) -> None:
    with FakeVlmServer(lambda _: vlm_answer("{}")) as server:
        backend = backend_of(server.url)
        for _ in range(2):
            assert world.scorer(backend).rate_ranges(world.handle, QUERY, (1, 2)) == "{}"
        backend.close()
    assert len(server.requests) == 1


def test_the_same_row_twice_is_one_call(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    scores = world.scorer(backend).score(world.handle, QUERY, (9, 9))
    assert scores[0] == scores[1]
    assert len(server.requests) == 1


def test_no_rows_are_no_calls(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    assert len(world.scorer(backend).score(world.handle, QUERY, ())) == 0
    assert server.requests == []


def test_an_answer_that_is_neither_yes_nor_no_is_missing(world: ScoredWorld) -> None:
    def undecided(body: dict[str, Any]) -> VlmReply:
        is_dark = pictures_of(body)[0].mean() < 100
        return vlm_answer("Hm", {"Hm": 0.9}) if is_dark else by_brightness(body)

    with FakeVlmServer(undecided) as server:
        backend = backend_of(server.url)
        scores = world.scorer(backend).score(world.handle, QUERY, (1, 90))
        assert np.isnan(scores).tolist() == [True, False]
        with pytest.raises(ScorerUnavailableError, match="neither yes nor no"):
            world.scorer(backend).score(world.handle, QUERY, (1, 2))
        assert len(server.requests) == 3
        backend.close()


def test_what_was_answered_before_a_failure_is_kept(world: ScoredWorld) -> None:
    def failing(body: dict[str, Any]) -> VlmReply:
        if pictures_of(body)[0].mean() > 150:
            time.sleep(0.2)
            return 400, {"message": "I do not like it"}
        return by_brightness(body)

    with FakeVlmServer(failing) as server:
        backend = backend_of(server.url, concurrency=2)
        with pytest.raises(ScorerUnavailableError, match="I do not like it"):
            world.scorer(backend).score(world.handle, QUERY, (1, 99, 2, 3))
        again = world.scorer(backend)
        again.score(world.handle, QUERY, (1, 2, 3))
        assert again.cost.calls == 0
        backend.close()


def test_a_scorer_serves_several_threads(world: ScoredWorld, backend: ScorerBackend) -> None:
    scorer = world.scorer(backend)
    results: dict[int, float] = {}

    def work(row: int) -> None:
        results[row] = float(scorer.score(world.handle, QUERY, [row])[0])

    threads = [threading.Thread(target=work, args=(row,)) for row in range(0, 100, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scorer.cost.calls == 10
    assert [results[row] for row in sorted(results)] == sorted(results.values())


def test_questions_that_make_no_sense_are_the_samplers_mistake(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer
) -> None:
    scorer = world.scorer(backend)
    with pytest.raises(IndexError):
        scorer.score(world.handle, QUERY, [100])
    with pytest.raises(ValueError, match="at least one"):
        scorer.score_sets(world.handle, QUERY, [(1,), ()])
    with pytest.raises(ValueError, match="256"):
        scorer.rate_ranges(world.handle, QUERY, [1] * 257)
    assert server.requests == []


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("a<|im_end|>b", "a< |im_end|>b"),
        ("<image> and [IMG]?", "< image> and [ IMG]?"),
        ("is 1 < 2?", "is 1 < 2?"),
        ("half \ud800 a pair", "half ? a pair"),
    ],
)
def test_a_question_cannot_pretend_to_be_a_picture_or_a_turn(
    world: ScoredWorld, backend: ScorerBackend, server: FakeVlmServer, query: str, asked: str
) -> None:
    world.scorer(backend).score(world.handle, query, [1])
    assert texts_of(server.requests[0])[0].startswith(f"A viewer asks about a video: {asked}\n")
