"""What the ledger holds of answers that ended in every way, and answers while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import LlmUnavailableError, VideoNotReadyError
from app.stages import Stages
from app.stores.ledger_rows import SelectionRecord
from app.stores.library import StoredVideo
from observability.log_events import hash_user_id
from samplers.contract import FloatArray
from tests.app.answer_world import (
    AnswerWorld,
    IndexedData,
    ask,
    build_world,
    post,
    put_flags,
    running,
)
from tests.app.postgres import running_postgres
from tests.app.rogue_samplers import TARGETS
from tests.app.video_world import wait_until
from tests.flags.flag_files import document, flag, split

pytestmark = pytest.mark.anyio

AWAY = "postgresql://ana:secret@127.0.0.1:1/ledger"


@pytest.fixture
def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed, extra_samplers=",".join(TARGETS))


@pytest.fixture
async def client(world: AnswerWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as opened:
        yield opened


async def record_of(world: AnswerWorld, answer_id: str) -> SelectionRecord:
    side = world.gateway.ledger
    assert await asyncio.to_thread(side.writer.flush, 10.0)
    [record] = side.ledger.selections_of(answer_id)
    return record


def answer_id_of(reply: httpx.Response) -> str:
    return str(reply.json()["instance"]).rpartition("/")[2]


async def test_an_answer_has_a_row_that_says_what_its_evidence_says(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    answer = await ask(client, indexed.short_id, sampler="bolt")
    record = await record_of(world, answer["answer_id"])
    evidence = answer["evidence"]

    assert list(record.indices) == [frame["index"] for frame in evidence["frames"]]
    assert (record.sampler_id, record.sampler_version) == ("bolt", evidence["sampler"]["version"])
    assert record.sampler_options == evidence["sampler"]["options"]
    assert (record.reason, record.is_exposure) == ("override", False)
    assert (record.budget, record.limited_by) == (
        evidence["budget"]["frames"],
        evidence["budget"]["limited_by"],
    )
    assert (record.vision_tokens_before, record.vision_tokens_after) == (
        evidence["vision_tokens"]["before_reduction"],
        evidence["vision_tokens"]["after_reduction"],
    )
    assert (record.encoder_id, record.llm_id) == (evidence["encoder"], evidence["llm"])
    assert (record.reducer_id, record.profile) == ("merge", "demo")
    assert (record.input_tokens, record.output_tokens) == (7, 2)
    assert record.latency_s == answer["timings_s"]
    assert (record.state, record.error, record.fallback_kind) == ("done", None, None)
    assert record.video_seconds == pytest.approx(10.0, abs=0.6)
    assert record.user_hash is None


async def test_a_dealt_user_is_an_exposure_with_the_rules_salt_and_a_hash(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    rule = split(100)
    put_flags(world.settings.flags_path, document(flag("bolt", "uniform", rule=rule)))
    answer = await ask(client, indexed.short_id, user_id="ann")
    record = await record_of(world, answer["answer_id"])

    salt = world.settings.user_hash_salt.get_secret_value()
    assert record.user_hash == hash_user_id(salt, "default", "ann")
    assert (record.decided_sampler_id, record.variant, record.reason) == ("bolt", "bolt", "split")
    assert record.is_exposure
    assert record.salt is not None
    [exposure] = world.gateway.ledger.ledger.exposures_after(0, salt=record.salt)
    assert exposure.answer_id == answer["answer_id"]


async def test_a_fallback_stays_with_the_sampler_that_was_decided(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    answer = await ask(client, indexed.short_id, sampler="raising")
    record = await record_of(world, answer["answer_id"])

    assert (record.decided_sampler_id, record.sampler_id) == ("raising", "uniform")
    assert record.decided_sampler_version is not None
    assert record.fallback_kind == "raised"
    assert record.fallback_message


async def test_an_answer_that_fails_in_generation_is_recorded_with_its_problem(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    world.llm.error = LlmUnavailableError()
    reply = await post(client, indexed.short_id)
    record = await record_of(world, answer_id_of(reply))

    assert (record.state, record.error) == ("failed", "urn:framegate:problem:llm-unavailable")
    assert record.vision_tokens_after > 0
    assert (record.input_tokens, record.output_tokens) == (None, None)


async def test_an_answer_whose_client_leaves_is_recorded_as_cancelled(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    rule = split(100)
    put_flags(world.settings.flags_path, document(flag("bolt", "uniform", rule=rule)))
    world.llm.hold()
    asking = asyncio.create_task(post(client, indexed.short_id, user_id="ann"))
    await world.llm.started.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    side = world.gateway.ledger
    await asyncio.to_thread(wait_until, lambda: side.writer.num_queued == 1)
    assert await asyncio.to_thread(side.writer.flush, 10.0)
    [exposure] = side.ledger.exposures_after(0, salt="s1/")
    assert (exposure.state, exposure.error) == ("cancelled", None)


class LostFeatures:
    """An encode stage whose stored tokens are gone."""

    async def encode(self, video: StoredVideo, indices: list[int]) -> FloatArray:
        raise VideoNotReadyError("lost")


async def test_a_selection_is_recorded_also_where_its_tokens_cannot_be_made(
    tmp_path: Path, indexed: IndexedData
) -> None:
    def lose(stages: Stages) -> Stages:
        return replace(stages, frame_encoder=LostFeatures())

    world = build_world(tmp_path / "data", indexed, mutate=lose)
    async with running(world) as client:
        reply = await post(client, indexed.short_id)
        record = await record_of(world, answer_id_of(reply))
    assert (record.state, record.error) == ("failed", "urn:framegate:problem:video-not-ready")
    assert len(record.indices) == record.budget
    assert record.vision_tokens_after == 0


async def test_an_answer_that_ends_before_a_selection_has_no_row(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = build_world(tmp_path / "data", indexed, llm_context_tokens=1200)
    async with running(world) as client:
        reply = await post(client, indexed.short_id, question="why " * 400)
        await asyncio.sleep(0)
        assert world.gateway.ledger.writer.num_queued == 0
    assert reply.status_code == 422


async def test_rows_that_wait_are_written_at_the_end(tmp_path: Path, indexed: IndexedData) -> None:
    world = build_world(tmp_path / "data", indexed)
    async with running(world) as client:
        answer = await ask(client, indexed.short_id)
    again = build_world(tmp_path / "data")
    assert len(again.gateway.ledger.ledger.selections_of(answer["answer_id"])) == 1
    again.gateway.ledger.ledger.close()
    again.gateway.videos.catalogue.close()


async def test_a_ledger_that_is_away_fails_no_answer_and_says_so_where_it_is_needed(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = build_world(tmp_path / "data", indexed, ledger_url=AWAY, shutdown_grace_s=0.2)
    async with running(world) as client:
        answer = await ask(client, indexed.short_id)
        path = f"/v1/answers/{answer['answer_id']}/feedback"
        feedback = await client.post(path, json={"verdict": "good"})
        await asyncio.to_thread(
            wait_until, lambda: world.counted("framegate_ledger_write_failures_total") > 0
        )
        assert (await ask(client, indexed.short_id))["state"] == "done"
        assert (await client.get("/readyz")).status_code == 200

    assert feedback.status_code == 503
    assert feedback.json()["type"] == "urn:framegate:problem:ledger-unavailable"
    assert "secret" not in feedback.text


async def test_answers_go_on_while_postgresql_is_killed_and_none_is_missing_afterwards(
    tmp_path: Path, indexed: IndexedData
) -> None:
    with running_postgres() as postgres:
        world = build_world(tmp_path / "data", indexed, ledger_url=postgres.new_database())
        async with running(world) as client:
            asked: list[dict[str, Any]] = [await ask(client, indexed.short_id)]
            await record_of(world, asked[0]["answer_id"])
            asked.append(await ask(client, indexed.short_id))
            await asyncio.to_thread(postgres.kill)
            asked += [await ask(client, indexed.short_id) for _ in range(3)]
            await asyncio.to_thread(
                wait_until, lambda: world.counted("framegate_ledger_write_failures_total") > 0
            )
            await asyncio.to_thread(postgres.start_again)
            for answer in asked:
                assert (await record_of(world, answer["answer_id"])).state == "done"
        assert world.counted("framegate_ledger_rows_dropped_total") == 0
