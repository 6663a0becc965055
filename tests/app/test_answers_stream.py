"""Streamed answers: the order of events, late errors, and clients that leave a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import LlmUnavailableError
from tests.app.answer_world import (
    QUESTION,
    AnswerWorld,
    IndexedData,
    assert_problem,
    build_world,
    events_of,
    post,
    running,
    serving,
    write_colours,
)
from tests.app.video_world import wait_until


@pytest.fixture
def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed)


@pytest.fixture
def http(world: AnswerWorld) -> Iterator[httpx.Client]:
    with serving(world) as address, httpx.Client(base_url=address, timeout=20.0) as client:
        yield client


def names(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [name for name, _ in events]


def asked(video_id: str, **fields: Any) -> dict[str, Any]:
    return {"video_id": video_id, "question": QUESTION, "stream": True, **fields}


def state(http: httpx.Client, path: str) -> str:
    return str(http.get(path).json()["state"])


def wait_for_cancelled(world: AnswerWorld, number: int) -> None:
    cancelled = "framegate_answers_total"
    wait_until(lambda: world.counted(cancelled, outcome="cancelled") == number)


def test_the_evidence_comes_first_then_tokens_usage_and_done(
    http: httpx.Client, indexed: IndexedData
) -> None:
    reply = http.post("/v1/answers", json=asked(indexed.long_id))
    events = events_of(reply.text)

    assert reply.headers["Content-Type"].startswith("text/event-stream")
    assert reply.headers["Cache-Control"] == "no-store"
    assert names(events) == ["evidence", "token", "token", "usage", "done"]
    done = events[-1][1]
    assert done["evidence"] == events[0][1]
    assert "".join(data["text"] for name, data in events if name == "token") == done["answer"]
    assert done["usage"] == events[-2][1]
    assert http.get(reply.headers["Content-Location"]).json() == done


def test_tokens_are_sent_as_they_come(
    http: httpx.Client, world: AnswerWorld, indexed: IndexedData
) -> None:
    world.llm.hold()
    world.llm.held_at = 1
    with http.stream("POST", "/v1/answers", json=asked(indexed.short_id)) as reply:
        lines = (line for line in reply.iter_lines() if line.startswith("event: "))
        assert [next(lines), next(lines)] == ["event: evidence", "event: token"]
        assert state(http, reply.headers["Content-Location"]) == "running"
        world.llm.release()
        assert list(lines) == ["event: token", "event: usage", "event: done"]


def test_progress_comes_before_the_evidence_of_a_video_that_is_being_indexed(
    http: httpx.Client, world: AnswerWorld, tmp_path: Path
) -> None:
    new = http.post("/v1/videos", content=write_colours(tmp_path / "new.mp4", 3.0)).json()
    events = events_of(http.post("/v1/answers", json=asked(new["video_id"])).text)
    progress = [data for name, data in events if name == "progress"]

    assert names(events) == ["progress"] * len(progress) + [
        "evidence",
        "token",
        "token",
        "usage",
        "done",
    ]
    fractions = [data["progress"] for data in progress]
    assert fractions == sorted(fractions)
    assert {data["status"] for data in progress} <= {"pending", "processing"}
    assert progress


def test_an_error_before_the_first_event_is_an_ordinary_problem(http: httpx.Client) -> None:
    reply = http.post("/v1/answers", json=asked("0" * 64))
    assert_problem(reply, 404, "video-not-found")


def test_a_failed_video_is_an_ordinary_problem(http: httpx.Client) -> None:
    new = http.post("/v1/videos", content=b"<html>not found</html>").json()
    wait_until(lambda: http.get(f"/v1/videos/{new['video_id']}").json()["status"] == "failed")
    reply = http.post("/v1/answers", json=asked(new["video_id"]))

    assert_problem(reply, 422, "not-a-video")
    assert "Content-Location" not in reply.headers


def test_a_wait_that_ends_too_early_is_an_error_event(
    http: httpx.Client, world: AnswerWorld, tmp_path: Path
) -> None:
    world.encoder.gate.clear()
    new = http.post("/v1/videos", content=write_colours(tmp_path / "new.mp4", 3.0)).json()
    events = events_of(http.post("/v1/answers", json=asked(new["video_id"], wait_s=3.0)).text)

    assert names(events)[0] == "progress"
    assert names(events)[-1] == "error"
    assert events[-1][1]["type"] == "urn:framegate:problem:video-not-ready"


@pytest.mark.parametrize("error_at", [0, 1])
def test_an_error_after_the_evidence_is_the_last_event(
    http: httpx.Client, world: AnswerWorld, indexed: IndexedData, error_at: int
) -> None:
    world.llm.error, world.llm.error_at = LlmUnavailableError(), error_at
    reply = http.post("/v1/answers", json=asked(indexed.short_id))
    events = events_of(reply.text)
    stored = http.get(reply.headers["Content-Location"]).json()

    assert reply.status_code == 200
    assert names(events) == ["evidence", *["token"] * error_at, "error"]
    problem = events[-1][1]
    assert problem["type"] == stored["problem"]["type"] == "urn:framegate:problem:llm-unavailable"
    assert problem["instance"] == reply.headers["Content-Location"]
    assert problem["trace_id"] == stored["trace_id"]
    assert stored["state"] == "failed"
    assert stored["answer"] == "two" * error_at


def test_a_token_with_an_odd_line_end_stays_one_event(
    http: httpx.Client, world: AnswerWorld, indexed: IndexedData
) -> None:
    world.llm.words = ("a\u2028b\x85c\n\nd",)
    with http.stream("POST", "/v1/answers", json=asked(indexed.short_id)) as reply:
        lines = [line for line in reply.iter_lines() if line]

    assert [line.partition(":")[0] for line in lines] == ["event", "data"] * 4


@pytest.mark.parametrize("held_at", [0, 1])
def test_a_streaming_client_that_leaves_stops_the_generation(
    http: httpx.Client, world: AnswerWorld, indexed: IndexedData, held_at: int
) -> None:
    world.llm.hold()
    world.llm.held_at = held_at
    with http.stream("POST", "/v1/answers", json=asked(indexed.short_id)) as reply:
        path = reply.headers["Content-Location"]
        wait_until(lambda: bool(world.llm.prompts))

    wait_until(lambda: world.llm.num_stopped == 1)
    wait_until(lambda: state(http, path) == "cancelled")
    answer = http.get(path).json()
    assert answer["evidence"]["frames"]
    assert answer["problem"] is None
    assert world.counted("framegate_generations_cancelled_total") == 1
    assert world.counted("framegate_answers_total", outcome="cancelled") == 1


def test_a_waiting_client_that_leaves_stops_the_generation(
    http: httpx.Client, world: AnswerWorld, indexed: IndexedData
) -> None:
    world.llm.hold()
    with pytest.raises(httpx.ReadTimeout):
        http.post("/v1/answers", json=asked(indexed.short_id, stream=False), timeout=0.5)

    wait_until(lambda: world.llm.num_stopped == 1)
    wait_for_cancelled(world, 1)


def test_clients_that_left_free_their_places(tmp_path: Path, indexed: IndexedData) -> None:
    world = build_world(tmp_path / "data", indexed, max_concurrent_answers=1)
    with serving(world) as address, httpx.Client(base_url=address, timeout=20.0) as http:
        world.llm.hold()
        for number in range(3):
            with http.stream("POST", "/v1/answers", json=asked(indexed.short_id)) as reply:
                assert reply.status_code == 200
            wait_for_cancelled(world, number + 1)
            # The place is kept until the answer is in the catalogue, after it was counted.
            wait_until(lambda: world.gateway.questions.shadow.load.num_running == 0)
        world.llm.release()
        assert http.post("/v1/answers", json=asked(indexed.short_id)).status_code == 200


def test_a_client_that_leaves_while_the_video_is_indexed_leaves_no_answer_running(
    http: httpx.Client, world: AnswerWorld, tmp_path: Path
) -> None:
    world.encoder.gate.clear()
    new = http.post("/v1/videos", content=write_colours(tmp_path / "new.mp4", 3.0)).json()
    with http.stream("POST", "/v1/answers", json=asked(new["video_id"])) as reply:
        path = reply.headers["Content-Location"]
        next(reply.iter_lines())

    wait_until(lambda: state(http, path) == "cancelled")
    assert not world.llm.prompts


@pytest.mark.anyio
async def test_more_events_than_the_queue_holds_all_arrive(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = build_world(tmp_path / "data", indexed)
    world.llm.words = tuple(f" {number}" for number in range(500))
    async with running(world) as client:
        reply = await post(client, indexed.short_id, stream=True)

    assert names(events_of(reply.text)) == ["evidence", *["token"] * 500, "usage", "done"]
