"""Answers from the shadow's frames: what they are compared by, and that users go first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.errors import LlmUnavailableError
from app.generate.contract import GenerationOptions
from tests.app.answer_world import AnswerWorld, IndexedData, ask, running
from tests.app.shadow_world import comparisons, lines, shadow_flags, shadow_world, until

pytestmark = pytest.mark.anyio

FLAGS = shadow_flags("aks", "uniform", answer_rate=1.0)
CHOICE = "What is there? A) a cat B) a dog"


def ended(world: AnswerWorld, outcome: str) -> float:
    return world.counted("framegate_shadow_answers_total", outcome=outcome)


async def test_the_shadow_s_frames_are_answered_at_temperature_0_and_compared(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS)
    async with running(world) as client:
        answer = await ask(client, indexed.long_id, temperature=1.5, seed=3, max_tokens=17)
        [line] = await comparisons(world)
        assert ended(world, "compared") == 1
    assert len(world.llm.prompts) == 2
    assert world.llm.prompts[0] != world.llm.prompts[1]
    assert world.llm.options == [GenerationOptions(17, 1.5, 3), GenerationOptions(17, 0.0, None)]
    assert (line["answers_agree"], line["agreement_method"]) == (1.0, "embedding")
    assert line["shadow"]["output_tokens"] == answer["usage"]["output_tokens"]


async def test_a_choice_is_compared_exactly(tmp_path: Path, indexed: IndexedData) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS)
    world.llm.words = ("A",)
    async with running(world) as client:
        await ask(client, indexed.long_id, question=CHOICE)
        world.llm.words = ("The", " answer is B.")
        [line] = await comparisons(world)
    assert (line["answers_agree"], line["agreement_method"]) == (0.0, "exact")


async def test_other_answers_are_compared_by_their_meaning_without_a_trace_in_the_cache(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS)
    async with running(world) as client:
        await ask(client, indexed.long_id)
        world.llm.words = ("a", " dog")
        [line] = await comparisons(world)
        vectors = world.gateway.questions.stages.inputs.query_vectors
        assert len(vectors) == 1
    assert line["agreement_method"] == "embedding"
    assert 0 <= line["answers_agree"] < 1
    assert world.encoder.queries[-2:] == ["two cats", "a dog"]


async def test_at_rate_0_no_frame_of_the_shadow_reaches_the_language_model(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, shadow_flags("aks", "uniform"))
    async with running(world) as client:
        await ask(client, indexed.long_id)
        [line] = await comparisons(world)
    assert len(world.llm.prompts) == 1
    assert line["answers_agree"] is None


async def test_while_a_user_waits_no_answer_is_made_in_shadow(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS, shadow_answer_wait_s=0.1)
    async with running(world) as client:
        await ask(client, indexed.long_id)
        world.llm.hold()
        waiting = asyncio.create_task(ask(client, indexed.short_id))
        [line] = await comparisons(world)
        assert ended(world, "shed") == 1
        assert len(world.llm.prompts) == 2
        world.llm.release()
        assert (await waiting)["answer"] == "two cats"
    assert line["answers_agree"] is None
    assert line["overlap_exact"] is not None


async def test_an_answer_in_shadow_is_stopped_when_a_user_comes(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS)
    async with running(world) as client:
        await ask(client, indexed.long_id)
        world.llm.hold()
        await until(lambda: len(world.llm.prompts) == 2)
        waiting = asyncio.create_task(ask(client, indexed.short_id))
        await until(lambda: world.llm.num_stopped == 1)
        assert not waiting.done()
        world.llm.release()
        assert (await waiting)["answer"] == "two cats"
        await until(lambda: ended(world, "shed") == 1)


async def test_one_answer_at_a_time_is_made_in_shadow(tmp_path: Path, indexed: IndexedData) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS)
    async with running(world) as client:
        for _ in range(4):
            await ask(client, indexed.short_id)
        world.llm.hold()
        await until(lambda: ended(world, "shed") >= 1)
        assert len(world.llm.prompts) <= 4 + 2
        world.llm.release()
        await comparisons(world, 4)
        await until(lambda: ended(world, "shed") + ended(world, "compared") == 4)


async def test_a_language_model_that_fails_in_shadow_costs_only_the_agreement(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS)
    async with running(world) as client:
        await ask(client, indexed.long_id)
        world.llm.error = LlmUnavailableError("gone")
        [line] = await comparisons(world)
        assert ended(world, "failed") == 1
        assert world.counted("framegate_llm_unavailable_total") == 0
    assert line["answers_agree"] is None
    assert line["shadow"]["failure_kind"] is None


async def test_an_answer_that_failed_is_not_answered_in_shadow(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS)
    world.llm.error = LlmUnavailableError("gone")
    async with running(world) as client:
        reply = await client.post(
            "/v1/answers", json={"video_id": indexed.long_id, "question": "What is there?"}
        )
        assert reply.status_code == 503
        await comparisons(world)
    assert len(world.llm.prompts) == 1


async def test_at_shutdown_an_answer_in_shadow_is_stopped_and_its_comparison_kept(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, FLAGS)
    async with running(world) as client:
        await ask(client, indexed.long_id)
        world.llm.hold()
        await until(lambda: len(world.llm.prompts) == 2)
    [line] = lines(world)
    assert line["answers_agree"] is None
    assert world.llm.num_stopped == 1
