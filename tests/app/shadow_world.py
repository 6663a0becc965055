"""Gateways whose flags ask for a shadow, and what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.stores.query_vectors import QueryVectors
from tests.app.answer_world import AnswerWorld, IndexedData, build_world, put_flags
from tests.flags.flag_files import document, flag
from tests.shadow.rogues import TARGETS

WAIT_S = 60.0


def shadow_flags(
    control: str, shadow: str, *, rate: float = 1.0, answer_rate: float = 0.0
) -> dict[str, Any]:
    content = document(flag(control), flag(shadow), flag(rate))
    content["flags"]["video.sampler.shadow_answer_rate"] = flag(answer_rate)
    return content


def shadow_world(
    folder: Path, indexed: IndexedData, flags: dict[str, Any], **overrides: Any
) -> AnswerWorld:
    """Every comparison is a line of `shadow.jsonl` in the folder; A/A only where asked for."""
    fields = {
        "extra_samplers": ",".join(TARGETS),
        "shadow_log_file": folder / "shadow.jsonl",
        "shadow_aa_share": 0.0,
        "shadow_deadline_s": 1.0,
        **overrides,
    }
    world = build_world(folder / "data", indexed, **fields)
    put_flags(world.settings.flags_path, flags)
    return world


def lines(world: AnswerWorld) -> list[dict[str, Any]]:
    """The comparisons so far."""
    path = world.settings.shadow_log_file
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


async def comparisons(world: AnswerWorld, num_expected: int = 1) -> list[dict[str, Any]]:
    """The comparisons, once there are so many."""
    await until(lambda: len(lines(world)) >= num_expected)
    return lines(world)


async def until(is_true: Callable[[], bool]) -> None:
    """Wait without holding the event loop."""
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.02)


def shed(world: AnswerWorld, reason: str) -> float:
    return world.counted("framegate_shadow_shed_total", reason=reason)


def cache_contents(world: AnswerWorld) -> tuple[list[str], list[object]]:
    """What the answers' caches hold, in their order of use."""
    stages = world.gateway.questions.stages
    vectors: QueryVectors = stages.inputs.query_vectors
    features = world.gateway.videos.features
    return list(vectors._stored), list(features._cache)
