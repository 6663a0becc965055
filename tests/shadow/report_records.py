"""Comparison records for the tests of the report: small ones by hand, many by a seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from shadow.compare import overlap_exact, overlap_within, temporal_distance_s
from shadow.records import ComparisonKind, ComparisonRecord, SideRecord

NOW_S = 1_800_000_000.0
TOLERANCE_S = 1.0
VIDEO_ID = "ab" * 32


def side(sampler_id: str, indices: list[int], **changes: Any) -> SideRecord:
    """A side whose frame i is at i / 10 seconds."""
    made = SideRecord(
        sampler_id=sampler_id,
        sampler_version="1",
        sampler_options={},
        indices=indices,
        seconds=[index / 10 for index in indices],
        latency_s=0.004,
        relevance=0.25,
        redundancy=0.5,
        scene_coverage=0.5,
        vision_tokens=2 * len(indices),
        encoder_device_s=0.002,
    )
    return replace(made, **changes)


def failed_side(sampler_id: str, kind: str) -> SideRecord:
    return replace(
        side(sampler_id, []),
        latency_s=1.0,
        failure_kind=kind,
        failure_message=f"it {kind}",
        relevance=None,
        redundancy=None,
        scene_coverage=None,
        vision_tokens=None,
    )


def comparison(
    number: int, control: SideRecord, shadow: SideRecord, **changes: Any
) -> ComparisonRecord:
    """What the shadow's runner would record of these two sides; A/A where they are one sampler."""
    is_compared = control.failure_kind is None and shadow.failure_kind is None
    first, second = (np.array(of.seconds, dtype=np.float64) for of in (control, shadow))
    is_a_a = control.sampler_id == shadow.sampler_id
    made = ComparisonRecord(
        comparison_id=f"comparison-{number:05}",
        answer_id=f"answer-{number:05}",
        tenant="default",
        video_id=VIDEO_ID,
        user_hash=f"user-{number:05}",
        created_s=NOW_S + number,
        kind=ComparisonKind.A_A if is_a_a else ComparisonKind.SAMPLER,
        question=f"What happens at number {number}?",
        flag_version="12@9f3c01ab",
        encoder_id="tiny@00000000",
        llm_id="fake-llm",
        profile="demo",
        reducer_id="merge",
        budget=4,
        video_seconds=30.0,
        num_candidates=100,
        control=control,
        shadow=shadow,
        overlap_exact=overlap_exact(control.indices, shadow.indices) if is_compared else None,
        overlap_within=overlap_within(first, second, TOLERANCE_S) if is_compared else None,
        tolerance_s=TOLERANCE_S,
        temporal_distance_s=temporal_distance_s(first, second) if is_compared else None,
    )
    return replace(made, **changes)


def many(
    num_records: int, *, seed: int = 1, num_users: int = 50, num_frames: int = 300
) -> list[ComparisonRecord]:
    """`uniform` and `aks` beside it, every tenth against itself, some failed, some answered."""
    rng = np.random.default_rng(seed)
    return [_drawn(number, rng, num_users, num_frames) for number in range(num_records)]


def _drawn(
    number: int, rng: np.random.Generator, num_users: int, num_frames: int
) -> ComparisonRecord:
    spread = [int(num_frames * share) for share in (0.1, 0.3, 0.5, 0.8)]
    control = side("uniform", spread, latency_s=float(rng.gamma(4, 0.001)))
    user = f"user-{int(rng.pareto(1.0) * 3) % num_users:05}"
    common: dict[str, Any] = {"user_hash": user, "llm_id": f"llm-{number % 2}"}
    if number % 10 == 0:
        again = replace(control, latency_s=float(rng.gamma(4, 0.001)))
        return comparison(number, control, again, **common)
    if number % 97 == 1:
        return comparison(number, control, failed_side("aks", "raised"), **common)
    chosen = sorted(rng.choice(num_frames, 4, replace=False).tolist())
    shadow = side(
        "aks",
        chosen,
        latency_s=float(rng.gamma(4, 0.003)),
        relevance=0.25 + float(rng.normal(0.03, 0.02)),
        redundancy=0.5 + float(rng.normal(-0.1, 0.05)),
        scene_coverage=float(rng.integers(0, 5)) / 4,
    )
    if number % 5 == 2:
        common |= {"answers_agree": float(rng.beta(5, 2)), "agreement_method": "embedding"}
        control = replace(control, answer="Two cats on a sofa.", output_tokens=6)
        shadow = replace(shadow, answer="A cat, and then a dog.", output_tokens=8)
    return comparison(number, control, shadow, **common)
