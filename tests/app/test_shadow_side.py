"""The shadow beside a whole gateway: what it records, and that no answer notices."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from shadow.sinks import without_texts
from tests.app.answer_world import QUESTION, IndexedData, ask, running
from tests.app.shadow_world import (
    cache_contents,
    comparisons,
    lines,
    shadow_flags,
    shadow_world,
    shed,
    until,
)
from tests.child_processes import child_processes

pytestmark = pytest.mark.anyio


async def test_an_answer_is_compared_with_what_the_shadow_would_have_chosen(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, shadow_flags("aks", "uniform"))
    async with running(world) as client:
        answer = await ask(client, indexed.long_id, user_id="ann")
        [line] = await comparisons(world)
        assert world.counted("framegate_shadow_comparisons_total", outcome="compared") == 1
        assert world.counted("framegate_shadow_queue") == 0
    assert (line["answer_id"], line["video_id"]) == (answer["answer_id"], indexed.long_id)
    assert (line["kind"], line["tenant"], line["profile"]) == ("sampler", "default", "demo")
    assert line["encoder_id"] == answer["evidence"]["encoder"]
    assert line["llm_id"] == "fake-llm"
    assert line["budget"] == answer["evidence"]["budget"]["frames"]
    assert len(line["user_hash"]) == 32
    control, shadow = line["control"], line["shadow"]
    frames = [frame["index"] for frame in answer["evidence"]["frames"]]
    assert (control["sampler_id"], control["indices"]) == ("aks", frames)
    assert control["vision_tokens"] == answer["evidence"]["vision_tokens"]["after_reduction"]
    assert control["output_tokens"] == answer["usage"]["output_tokens"]
    assert shadow["sampler_id"] == "uniform"
    assert len(shadow["indices"]) == line["budget"]
    assert shadow["vision_tokens"] == control["vision_tokens"]
    assert (shadow["encoder_device_s"], control["encoder_device_s"]) == (0.0, 0.001)
    for side in (control, shadow):
        assert side["failure_kind"] is None
        assert -1 <= side["relevance"] <= 1
        assert side["scene_coverage"] > 0
    assert 0 <= line["overlap_exact"] <= line["overlap_within"] <= 1


async def test_the_ledger_gets_the_whole_comparison_with_its_texts(
    tmp_path: Path, indexed: IndexedData
) -> None:
    flags = shadow_flags("aks", "uniform", answer_rate=1.0)
    world = shadow_world(tmp_path, indexed, flags)
    async with running(world) as client:
        answer = await ask(client, indexed.long_id)
        [line] = await comparisons(world)
        ledger = world.gateway.ledger.ledger
        await until(lambda: ledger.comparisons(0.0, 1e12) != [])
        [record] = ledger.comparisons(0.0, 1e12)
    assert json.loads(json.dumps(without_texts(record))) == line
    assert record.question == QUESTION
    assert record.control.answer == record.shadow.answer == answer["answer"]


@pytest.mark.parametrize("sampler_id", ["aks", "bolt", "shot", "fps", "uniform"])
async def test_a_control_beside_itself_is_at_no_distance(
    tmp_path: Path, indexed: IndexedData, sampler_id: str
) -> None:
    flags = shadow_flags(sampler_id, "uniform")
    world = shadow_world(tmp_path, indexed, flags, shadow_aa_share=1.0)
    async with running(world) as client:
        await ask(client, indexed.long_id)
        [line] = await comparisons(world)
    assert (line["kind"], line["shadow"]["sampler_id"]) == ("a_a", sampler_id)
    assert (line["overlap_exact"], line["overlap_within"]) == (1.0, 1.0)
    assert line["temporal_distance_s"] == 0.0
    assert line["control"]["relevance"] == line["shadow"]["relevance"]


async def test_where_the_shadow_sampler_serves_the_baseline_is_in_shadow(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, shadow_flags("bolt", "bolt"))
    async with running(world) as client:
        await ask(client, indexed.short_id)
        [line] = await comparisons(world)
    assert (line["control"]["sampler_id"], line["shadow"]["sampler_id"]) == ("bolt", "uniform")


async def test_no_rate_no_comparison_and_no_process(tmp_path: Path, indexed: IndexedData) -> None:
    world = shadow_world(tmp_path, indexed, shadow_flags("aks", "uniform", rate=0.0))
    async with running(world) as client:
        await ask(client, indexed.short_id)
        assert world.gateway.questions.shadow.process_id is None
    assert lines(world) == []


async def test_a_control_that_failed_is_compared_as_assigned(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, shadow_flags("raising", "aks"))
    async with running(world) as client:
        answer = await ask(client, indexed.short_id)
        [line] = await comparisons(world)
        failed = {"sampler": "aks", "outcome": "control_failed"}
        assert world.counted("framegate_shadow_comparisons_total", **failed) == 1
    assert answer["evidence"]["sampler"]["id"] == "uniform"
    control, shadow = line["control"], line["shadow"]
    assert (control["sampler_id"], control["failure_kind"]) == ("raising", "raised")
    assert (control["indices"], control["vision_tokens"]) == ([], None)
    assert shadow["failure_kind"] is None
    assert line["overlap_exact"] is None


ROGUES = {
    "raising": "raised",
    "floats": "contract",
    "unsorted": "contract",
    "sleeping": "deadline",
    "spinning": "deadline",
    "dying": "raised",
    "exiting": "raised",
    "odd-error": "raised",
    "featureless": "dependency",
    "unannounced": "dependency",
    "scribbling": "raised",
}
VARYING = {"answer_id", "created", "timings_s", "trace_id"}


def constant(document: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs between any two answers."""
    kept = {name: value for name, value in document.items() if name not in VARYING}
    evidence = dict(kept["evidence"])
    del evidence["timings_s"]
    evidence["sampler"] = {**evidence["sampler"], "flag_version": None}
    return {**kept, "evidence": evidence}


@pytest.mark.parametrize("rogue", ROGUES)
async def test_answers_are_the_same_beside_a_rogue_and_nothing_is_left(
    tmp_path: Path, indexed: IndexedData, rogue: str
) -> None:
    others = child_processes()
    questions = [QUESTION, "Is there a cat?", QUESTION]
    alone = shadow_world(tmp_path / "alone", indexed, shadow_flags("bolt", "off"))
    beside = shadow_world(tmp_path / "beside", indexed, shadow_flags("bolt", rogue))
    async with running(alone) as client:
        expected = [await ask(client, indexed.long_id, question=one) for one in questions]
        expected_caches = cache_contents(alone)
    async with running(beside) as client:
        answers = [await ask(client, indexed.long_id, question=one) for one in questions]
        # A machine that is too busy for the shadow sheds, which is no failure of the sampler.
        await until(lambda: len(lines(beside)) + shed(beside, "load") == len(questions))
        assert cache_contents(beside) == expected_caches
    assert [constant(one) for one in answers] == [constant(one) for one in expected]
    assert {line["shadow"]["failure_kind"] for line in lines(beside)} <= {ROGUES[rogue]}
    assert alone.encoder.queries == beside.encoder.queries
    assert child_processes() <= others


async def test_a_query_vector_of_the_shadow_s_own_leaves_the_answers_cache_alone(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, shadow_flags("uniform", "aks"))
    async with running(world) as client:
        answer = await ask(client, indexed.long_id)
        await ask(client, indexed.long_id)
        first, second = await comparisons(world, 2)
        assert cache_contents(world) == ([], [])
    assert "query_vectors" not in answer["evidence"]["caches"]
    # Asked for once, after the answer, and remembered by the shadow.
    assert world.encoder.queries == [QUESTION]
    assert first["shadow"]["failure_kind"] is None
    assert [one["shadow"]["encoder_device_s"] for one in (first, second)] == [0.001, 0.0]
    assert first["control"]["encoder_device_s"] == 0.0
    assert first["control"]["relevance"] is not None


async def test_an_encoder_process_that_is_away_is_a_missing_dependency_of_the_shadow(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, shadow_flags("uniform", "aks"))
    world.encoder.is_away = True
    async with running(world) as client:
        await ask(client, indexed.long_id)
        [line] = await comparisons(world)
    assert line["shadow"]["failure_kind"] == "dependency"
    assert line["control"]["relevance"] is None
    assert line["control"]["redundancy"] is not None


async def test_a_tenant_s_cap_sheds(tmp_path: Path, indexed: IndexedData) -> None:
    flags = shadow_flags("aks", "uniform")
    world = shadow_world(tmp_path, indexed, flags, shadow_tenant_per_minute=2)
    async with running(world) as client:
        for _ in range(4):
            await ask(client, indexed.short_id)
        await comparisons(world, 2)
        assert shed(world, "tenant_cap") == 2
    assert len(lines(world)) == 2


async def ask_many(client: httpx.AsyncClient, video_id: str, num: int) -> None:
    await asyncio.gather(*(ask(client, video_id) for _ in range(num)))


async def test_under_load_nothing_is_compared(tmp_path: Path, indexed: IndexedData) -> None:
    flags = shadow_flags("aks", "uniform")
    world = shadow_world(tmp_path, indexed, flags, shadow_max_running_answers=0)
    async with running(world) as client:
        await ask_many(client, indexed.short_id, 4)
        await until(lambda: shed(world, "load") + len(lines(world)) == 4)
        assert shed(world, "load") >= 3


async def test_a_video_that_was_deleted_before_its_turn_sheds(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = shadow_world(tmp_path, indexed, shadow_flags("aks", "spinning"))
    async with running(world) as client:
        await ask(client, indexed.short_id)
        await ask(client, indexed.long_id)
        reply = await client.delete(f"/v1/videos/{indexed.long_id}")
        assert reply.status_code == 204
        await until(lambda: shed(world, "video_gone") == 1)
    assert {line["video_id"] for line in lines(world)} == {indexed.short_id}


async def test_at_shutdown_what_was_compared_is_kept_and_the_rest_is_shed(
    tmp_path: Path, indexed: IndexedData
) -> None:
    others = child_processes()
    world = shadow_world(
        tmp_path, indexed, shadow_flags("aks", "sleeping"), shadow_deadline_s=600.0
    )
    async with running(world) as client:
        for _ in range(3):
            await ask(client, indexed.short_id)
        await until(lambda: world.gateway.questions.shadow.process_id is not None)
        await world.gateway.questions.shadow.aclose()
        assert shed(world, "closing") == 3
    assert child_processes() <= others
