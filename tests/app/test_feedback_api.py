"""Feedback on answers, and deletion by user and by video, over HTTP and on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.stores.ledger_rows import FeedbackVerdict
from observability.log_events import hash_user_id
from tests.app.answer_world import (
    AnswerWorld,
    IndexedData,
    ask,
    assert_problem,
    build_world,
    running,
    serving,
)
from tests.app.ledger_world import comparison, feedback
from tests.app.test_cli import CommandLine

AWAY = "postgresql://ana:secret@127.0.0.1:1/ledger"
KEY = "operators-key"


@pytest.fixture
def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed)


@pytest.fixture
async def client(world: AnswerWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as opened:
        yield opened


def path_of(answer: dict[str, Any]) -> str:
    return f"/v1/answers/{answer['answer_id']}/feedback"


async def flushed(world: AnswerWorld) -> None:
    assert await asyncio.to_thread(world.gateway.ledger.writer.flush, 10.0)


# Feedback


@pytest.mark.anyio
async def test_feedback_is_committed_when_the_reply_comes_and_the_last_one_counts(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    answer = await ask(client, indexed.short_id)
    first = await client.post(path_of(answer), json={"verdict": "good"})
    second = await client.post(path_of(answer), json={"verdict": "bad", "reason": "no dog"})

    assert (first.status_code, second.status_code) == (200, 200)
    document = second.json()
    assert document.pop("created").endswith("Z")
    assert document == {
        "answer_id": answer["answer_id"],
        "verdict": "bad",
        "reason": "no dog",
    }
    kept = world.gateway.ledger.ledger.feedback_of(answer["answer_id"])
    assert kept is not None
    assert (kept.verdict, kept.reason) == (FeedbackVerdict.BAD, "no dog")
    assert (kept.tenant, kept.video_id) == ("default", indexed.short_id)


@pytest.mark.anyio
async def test_feedback_on_an_answer_that_is_not_there_is_refused(
    client: httpx.AsyncClient,
) -> None:
    reply = await client.post("/v1/answers/nobody/feedback", json={"verdict": "good"})
    assert_problem(reply, 404, "answer-not-found")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"verdict": "fine"},
        {"verdict": "good", "reason": "x" * 1001},
        {"verdict": "good", "n": 1},
    ],
)
async def test_feedback_of_another_form_is_refused(
    client: httpx.AsyncClient, indexed: IndexedData, body: dict[str, Any]
) -> None:
    answer = await ask(client, indexed.short_id)
    assert_problem(await client.post(path_of(answer), json=body), 422, "invalid-request")


@pytest.mark.anyio
async def test_feedback_is_for_answers_of_the_tenant_alone(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(build_world(tmp_path / "data", indexed)) as client:
        answer = await ask(client, indexed.short_id)
    async with running(build_world(tmp_path / "data", tenant="other")) as client:
        reply = await client.post(path_of(answer), json={"verdict": "good"})
    assert_problem(reply, 404, "answer-not-found")


# A user


@pytest.mark.anyio
@pytest.mark.parametrize("user_id", ["ann", "team/ann doe", "änn?"])
async def test_a_deleted_user_leaves_neither_answers_nor_rows(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData, user_id: str
) -> None:
    gone = await ask(client, indexed.short_id, user_id=user_id)
    kept = await ask(client, indexed.short_id, user_id="bob")
    await client.post(path_of(gone), json={"verdict": "good"})
    salt = world.settings.user_hash_salt.get_secret_value()
    shadow = comparison(user_hash=hash_user_id(salt, "default", user_id))
    world.gateway.ledger.writer.put_comparison(shadow)
    await flushed(world)

    quoted = str(httpx.QueryParams({"u": user_id})).removeprefix("u=").replace("+", "%20")
    reply = await client.delete(f"/v1/users/{quoted}/records")

    assert reply.json() == {"answers": 1, "selections": 1, "comparisons": 1, "feedback": 1}
    ledger = world.gateway.ledger.ledger
    assert ledger.selections_of(gone["answer_id"]) == []
    assert len(ledger.selections_of(kept["answer_id"])) == 1
    assert_problem(await client.get(f"/v1/answers/{gone['answer_id']}"), 404, "answer-not-found")
    assert (await client.get(f"/v1/answers/{kept['answer_id']}")).status_code == 200
    again = await client.delete(f"/v1/users/{quoted}/records")
    assert set(again.json().values()) == {0}


@pytest.mark.anyio
async def test_rows_that_still_waited_when_their_user_was_deleted_are_found_too(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    answer = await ask(client, indexed.short_id, user_id="ann")
    assert world.gateway.ledger.writer.num_queued == 1
    deleted = await client.delete("/v1/users/ann/records")
    await flushed(world)
    assert world.gateway.ledger.ledger.selections_of(answer["answer_id"]) == []
    assert (deleted.json()["answers"], deleted.json()["selections"]) == (1, 1)


@pytest.mark.anyio
async def test_only_operators_delete_users(tmp_path: Path, indexed: IndexedData) -> None:
    world = build_world(tmp_path / "data", indexed, operator_key=SecretStr(KEY))
    async with running(world) as client:
        without = await client.delete("/v1/users/ann/records")
        headers = {"Authorization": f"Bearer {KEY}"}
        right = await client.delete("/v1/users/ann/records", headers=headers)
    assert_problem(without, 403, "operator-key-required")
    assert right.status_code == 200


# A video


@pytest.mark.anyio
async def test_a_deleted_video_takes_its_rows_with_it(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    gone = await ask(client, indexed.short_id)
    kept = await ask(client, indexed.long_id)
    for answer in (gone, kept):
        await client.post(path_of(answer), json={"verdict": "good"})
    writer, ledger = world.gateway.ledger.writer, world.gateway.ledger.ledger
    writer.put_comparison(comparison("x", video_id=indexed.short_id))
    writer.put_comparison(comparison("y", video_id=indexed.long_id))
    await flushed(world)

    assert (await client.delete(f"/v1/videos/{indexed.short_id}")).status_code == 204

    assert ledger.selections_of(gone["answer_id"]) == []
    assert ledger.feedback_of(gone["answer_id"]) is None
    assert [one.comparison_id for one in ledger.comparisons(0.0, 1e12)] == ["y"]
    assert len(ledger.selections_of(kept["answer_id"])) == 1


@pytest.mark.anyio
async def test_rows_that_a_deletion_could_not_reach_go_when_it_is_repeated(
    tmp_path: Path, indexed: IndexedData
) -> None:
    path = f"/v1/videos/{indexed.short_id}"
    away = build_world(tmp_path / "data", indexed, ledger_url=AWAY, shutdown_grace_s=0.1)
    async with running(away) as client:
        reply = await client.delete(path)
    detail = assert_problem(reply, 503, "ledger-unavailable")["detail"]
    assert "delete it again" in detail
    assert "secret" not in detail

    world = build_world(tmp_path / "data")
    async with running(world) as client:
        ledger = world.gateway.ledger.ledger
        ledger.put_feedback(feedback(video_id=indexed.short_id))
        assert (await client.delete(path)).status_code == 204
        assert ledger.feedback_of("answer-1") is None
        assert_problem(await client.delete(path), 404, "video-not-found")


# The command line


def test_feedback_and_the_deletion_of_a_user_work_from_the_command_line(
    world: AnswerWorld, indexed: IndexedData, tmp_path: Path
) -> None:
    framegate = CommandLine(tmp_path / "data")
    with serving(world) as address, httpx.Client(base_url=address, timeout=30.0) as http:
        body = {"video_id": indexed.short_id, "question": "why?", "user_id": "ann"}
        answer_id = http.post("/v1/answers", json=body).json()["answer_id"]
        said = framegate("feedback", answer_id, "bad", "--reason", "no dog", "--server", address)
        unknown = framegate("feedback", "nobody", "good", "--server", address)
        assert world.gateway.ledger.writer.flush(10.0)
        deleted = framegate("delete-user", "ann", "--yes", "--server", address)
        kept = world.gateway.ledger.ledger.feedback_of(answer_id)

    assert (said.returncode, said.stdout.split(":")[0]) == (0, "Recorded"), said.stderr
    assert unknown.returncode == 1
    assert "No such answer" in unknown.stderr
    assert deleted.returncode == 0, deleted.stderr
    assert deleted.stdout.startswith("Deleted: 1 answers, 1 selections, 0 comparisons, 1 feedback.")
    assert kept is None
