"""What questions cost: no decoding, no image encoder; a hundred about a new video cost one index.

Counted by the service itself, in /metrics.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.app.answer_world import (
    AnswerWorld,
    IndexedData,
    ask,
    build_world,
    running,
    write_colours,
)

pytestmark = pytest.mark.anyio

NUM_CANDIDATES = 6
NUM_ASKERS = 100


def work(world: AnswerWorld) -> tuple[float, float]:
    """Decode workers started and pictures encoded since the service started."""
    return (
        world.counted("framegate_decode_workers_started_total"),
        world.counted("framegate_encoder_pictures_encoded_total"),
    )


async def test_a_question_decodes_nothing_and_encodes_no_picture(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = build_world(tmp_path / "data", indexed)
    async with running(world) as client:
        for number in range(5):
            await ask(client, indexed.long_id, question=f"Question {number}?")
        assert work(world) == (0, 0)
        assert world.counted("framegate_answers_total", outcome="ok") == 5
        assert world.counted("framegate_stage_duration_seconds_count", stage="decode") == 0
    assert world.encoder.rows == []


async def test_a_hundred_questions_about_a_new_video_cost_one_decode_and_one_encode(
    tmp_path: Path,
) -> None:
    world = build_world(tmp_path / "data", max_concurrent_answers=NUM_ASKERS)
    async with running(world) as client:
        new = await client.post("/v1/videos", content=write_colours(tmp_path / "new.mp4", 3.0))
        video_id = new.json()["video_id"]
        answers = await asyncio.gather(
            *(ask(client, video_id, user_id=f"user-{n}") for n in range(NUM_ASKERS))
        )
        assert work(world) == (1, NUM_CANDIDATES)
        assert world.counted("framegate_answers_total", outcome="ok") == NUM_ASKERS
    assert world.encoder.rows == [*range(NUM_CANDIDATES)]
    assert len({answer["answer_id"] for answer in answers}) == NUM_ASKERS
    assert len(world.encoder.queries) == 1


async def test_an_answer_counts_its_tokens_caches_and_device_seconds(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = build_world(tmp_path / "data", indexed)
    async with running(world) as client:
        evidence = (await ask(client, indexed.short_id))["evidence"]
        await ask(client, indexed.short_id)
        tokens, lookups = "framegate_answer_vision_tokens_sum", "framegate_cache_lookups_total"
        before = evidence["vision_tokens"]["before_reduction"]
        assert world.counted(tokens, when="before") == 2 * before
        assert world.counted(lookups, cache="query_vectors", result="miss") == 1
        assert world.counted(lookups, cache="query_vectors", result="hit") == 1
        assert world.counted(lookups, cache="features", result="hit") == 2
        device_s = world.counted("framegate_answer_encoder_device_seconds_sum")
        assert device_s == pytest.approx(0.001)
        assert world.counted("framegate_llm_tokens_total", kind="output") == 4
        for stage in ("select_frames", "encode", "reduce", "generate"):
            name = "framegate_stage_duration_seconds_count"
            assert world.counted(name, stage=stage, outcome="ok") == 2
