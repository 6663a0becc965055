"""One comparison of two samplers on one question: what the sinks get and the report reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class ComparisonKind(StrEnum):
    SAMPLER = "sampler"
    """The control against the shadow sampler."""
    A_A = "a_a"
    """The control against itself: the noise floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRecord:
    """What one sampler chose, and what it cost."""

    sampler_id: str
    sampler_version: str
    sampler_options: Mapping[str, object]
    indices: Sequence[int]
    """Frame indices; empty where the sampler failed."""
    seconds: Sequence[float]
    """Presentation times of `indices`."""
    latency_s: float
    """Of `select`, measured in the process that ran it."""
    failure_kind: str | None = None
    """raised, contract, deadline, dependency, unknown, breaker_open; None where it selected."""
    failure_message: str | None = None
    relevance: float | None = None
    """Mean cosine of the frames with the question, in `ComparisonRecord.encoder_id`."""
    redundancy: float | None = None
    """Mean cosine of all pairs of the frames; None for fewer than two."""
    scene_coverage: float | None = None
    """Share of the video's shots with a frame, of those that the budget could reach."""
    model_calls: int = 0
    """Of the scoring model, in the process that ran `select`."""
    model_tokens: int = 0
    """Read and written by the scoring model in these calls."""
    vision_tokens: int | None = None
    """After reduction."""
    output_tokens: int | None = None
    """Of the answer that this side's frames gave, where one was made."""
    encoder_device_s: float = 0.0
    answer: str | None = None
    """Only where the answers were compared too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRecord:
    """Both sides of one question, and how they differ. Differences are None where a side failed."""

    comparison_id: str
    answer_id: str
    tenant: str
    video_id: str
    user_hash: str | None
    created_s: float
    kind: ComparisonKind
    question: str
    flag_version: str | None
    encoder_id: str
    llm_id: str
    profile: str
    reducer_id: str
    budget: int
    video_seconds: float
    num_candidates: int
    control: SideRecord
    shadow: SideRecord
    overlap_exact: float | None
    """Shared frames / frames of the smaller set."""
    overlap_within: float | None
    """The same with frames matched one to one within `tolerance_s`."""
    tolerance_s: float
    temporal_distance_s: float | None
    """Mean distance of the frames' times when matched in order (1-Wasserstein of the two sets)."""
    answers_agree: float | None = None
    """0..1: exact for choices, cosine of the answers' embeddings otherwise; None: not compared."""
    agreement_method: str | None = None
    """`exact` or `embedding`."""
