"""How the scorer fails: clearly, in time, without asking too often, and not for ever."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.scorer.account import SelectionAccount
from app.scorer.backend import ScorerBackend
from app.scorer.breaker import CircuitBreaker, CircuitRule
from app.scorer.spec import ModelCost
from samplers.contract import ScorerUnavailableError
from tests.app.scored_video import QUERY, ScoredWorld, backend_of, by_brightness
from tests.fakes import FakeVlmServer, VlmReply, vlm_answer

Answer = Callable[[dict[str, Any]], VlmReply]


@pytest.fixture
def world(tmp_path: Path) -> ScoredWorld:
    return ScoredWorld(tmp_path)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def failing_at_first(num_failures: int, status: int = 503) -> Answer:
    numbers = itertools.count()
    return lambda body: (
        (status, {"message": "later"}) if next(numbers) < num_failures else by_brightness(body)
    )


def failure(world: ScoredWorld, answer: Answer, num_rows: int = 1) -> tuple[str, ModelCost]:
    """What a selection that must fail says, and what it cost."""
    with FakeVlmServer(answer) as server:
        backend = backend_of(server.url)
        scorer = world.scorer(backend)
        with pytest.raises(ScorerUnavailableError) as caught:
            scorer.score(world.handle, QUERY, range(num_rows))
        backend.close()
    return str(caught.value), scorer.cost


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_call_that_failed_by_chance_is_repeated(world: ScoredWorld, status: int) -> None:
    with FakeVlmServer(failing_at_first(2, status)) as server:
        backend = backend_of(server.url, concurrency=1)
        scorer = world.scorer(backend)
        started_s = time.monotonic()
        assert len(scorer.score(world.handle, QUERY, range(4))) == 4
        backend.close()
    assert time.monotonic() - started_s > 0.1 + 0.2
    assert (scorer.cost.calls, scorer.cost.retried_calls) == (6, 2)


def test_no_more_than_a_tenth_of_the_calls_is_repeated(world: ScoredWorld) -> None:
    numbers = itertools.count()

    def every_third_fails(body: dict[str, Any]) -> VlmReply:
        return (503, {}) if next(numbers) % 3 == 0 else by_brightness(body)

    said, cost = failure(world, every_third_fails, num_rows=90)
    assert "503" in said
    assert cost.retried_calls <= 2 + 0.1 * (cost.calls - cost.retried_calls)
    assert cost.calls < 40


def test_a_server_that_is_away_is_asked_three_times_in_all(world: ScoredWorld) -> None:
    backend = backend_of(f"http://127.0.0.1:{free_port()}", concurrency=1)
    scorer = world.scorer(backend)
    with pytest.raises(ScorerUnavailableError, match="cannot be reached"):
        scorer.score(world.handle, QUERY, range(50))
    backend.close()
    assert scorer.cost.calls == 3


@pytest.mark.parametrize(
    ("status", "message", "said"),
    [
        (400, "At most 1 image(s) may be provided in one prompt.", "Too many or too large"),
        (400, "This model's maximum context length is 512 tokens.", "Too many or too large"),
        (413, "", "Too many or too large"),
        (401, "Unauthorized", "FRAMEGATE_SCORER_API_KEY"),
        (404, "The model `tiny-vlm` does not exist.", "FRAMEGATE_SCORER_MODEL"),
        (422, "no such field", "no such field"),
    ],
)
def test_a_refusal_is_not_repeated_and_says_what_to_do(
    world: ScoredWorld, status: int, message: str, said: str
) -> None:
    text, cost = failure(world, lambda _: (status, {"error": {"message": message}}))
    assert said in text
    assert message in text
    assert cost.calls == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (vlm_answer("yes"), "logprobs"),
        ((200, {"choices": []}), "logprobs"),
        ((200, {"hello": 1}), "no reply"),
        ((200, []), "no reply"),
    ],
)
def test_a_server_that_gives_no_probabilities_cannot_score(
    world: ScoredWorld, reply: VlmReply, said: str
) -> None:
    text, cost = failure(world, lambda _: reply)
    assert said in text
    assert cost.calls == 1


def test_one_slow_call_ends_after_its_own_timeout(world: ScoredWorld) -> None:
    def hanging(body: dict[str, Any]) -> VlmReply:
        time.sleep(2.0)
        return by_brightness(body)

    with FakeVlmServer(hanging) as server:
        backend = backend_of(server.url, call_timeout_s=0.2)
        started_s = time.monotonic()
        with pytest.raises(ScorerUnavailableError, match=r"within 0\.2 s"):
            world.scorer(backend).score(world.handle, QUERY, [1])
        assert time.monotonic() - started_s < 1.9
        backend.close()


def test_a_selection_ends_at_its_deadline_whatever_is_still_asked(world: ScoredWorld) -> None:
    def slow(body: dict[str, Any]) -> VlmReply:
        time.sleep(0.1)
        return by_brightness(body)

    with FakeVlmServer(slow) as server:
        backend = backend_of(server.url, concurrency=2)
        scorer = world.scorer(backend, deadline_s=0.5)
        started_s = time.monotonic()
        with pytest.raises(ScorerUnavailableError, match=r"0\.5 s"):
            scorer.score(world.handle, QUERY, range(100))
        assert time.monotonic() - started_s < 1.5
        calls = scorer.cost.calls
        with pytest.raises(ScorerUnavailableError, match="time was up"):
            scorer.score(world.handle, QUERY, [99])
        assert scorer.cost.calls == calls
        again = world.scorer(backend)
        again.score(world.handle, QUERY, [0, 1])
        assert again.cost.cached_scores == 2
        backend.close()


def test_after_failures_in_a_row_the_server_is_left_alone_and_then_tried_again(
    world: ScoredWorld,
) -> None:
    port = free_port()
    backend = backend_of(f"http://127.0.0.1:{port}", CircuitRule(max_failures=3, open_s=0.5))
    costs = [failed_cost(world, backend) for _ in range(3)]
    scorer = world.scorer(backend)
    with pytest.raises(ScorerUnavailableError, match=r"not asked again.*cannot be reached"):
        scorer.score(world.handle, QUERY, [5])
    costs.append(scorer.cost)
    assert [cost.breaker_openings for cost in costs] == [0, 0, 1, 0]
    assert (costs[3].calls, costs[3].breaker_refusals) == (0, 1)
    time.sleep(0.5)
    still_away = failed_cost(world, backend)
    assert (still_away.calls, still_away.breaker_openings) == (3, 1)
    time.sleep(0.5)
    with FakeVlmServer(by_brightness, port):
        for _ in range(2):
            assert len(world.scorer(backend).score(world.handle, QUERY, [5])) == 1
        backend.close()


def failed_cost(world: ScoredWorld, backend: ScorerBackend) -> ModelCost:
    scorer = world.scorer(backend)
    with pytest.raises(ScorerUnavailableError):
        scorer.score(world.handle, QUERY, [5])
    return scorer.cost


def test_a_refused_question_says_nothing_about_the_server(world: ScoredWorld) -> None:
    with FakeVlmServer(lambda _: (400, {"message": "too many images"})) as server:
        backend = backend_of(server.url, CircuitRule(max_failures=1))
        for _ in range(3):
            assert failed_cost(world, backend).calls == 1
        backend.close()


def test_a_video_without_pictures_has_no_scores(world: ScoredWorld) -> None:
    (world.frames / "pictures.pack").unlink()
    backend = backend_of("http://127.0.0.1:9")
    with pytest.raises(ScorerUnavailableError, match="pictures"):
        world.scorer(backend)
    backend.close()


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_one_trial_runs_at_a_time_and_decides() -> None:
    clock = Clock()
    breaker = CircuitBreaker(CircuitRule(max_failures=1, open_s=10.0), clock)
    assert breaker.admit() is None
    assert breaker.fail()
    assert breaker.admit() == 10.0
    clock.now_s += 10.0
    assert breaker.admit() is None
    assert breaker.admit() == 0.0
    breaker.abandon()
    assert breaker.admit() is None
    assert breaker.fail()
    clock.now_s += 10.0
    assert breaker.admit() is None
    breaker.succeed()
    assert [breaker.admit(), breaker.admit()] == [None, None]


def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = CircuitBreaker(CircuitRule(max_failures=2), Clock())
    for _ in range(3):
        assert breaker.admit() is None
        assert not breaker.fail()
        breaker.succeed()


def test_retries_grow_with_the_calls() -> None:
    account = SelectionAccount("m", 1.0)
    account.add(calls=1)
    assert [account.take_retry() for _ in range(3)] == [True, True, False]
    account.add(calls=22)
    assert [account.take_retry() for _ in range(3)] == [True, True, False]
