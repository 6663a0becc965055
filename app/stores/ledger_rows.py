"""What the ledger keeps: one row a selection, a feedback, a shadow comparison, a rollout step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRecord:
    """One (answer, video): who was dealt to what, what was selected, and what it cost.

    Written when the answer has ended, in whatever way. Arms are compared as assigned:
    `decided_sampler_id` is the arm, `sampler_id` the sampler that selected, which is `uniform`
    after a fallback.
    """

    answer_id: str
    tenant: str
    video_id: str
    user_hash: str | None
    """From `hash_user_id`; never the user id itself."""
    created_s: float
    """Seconds since the epoch, when the answer was asked for."""

    decided_sampler_id: str
    decided_sampler_version: str | None
    """None for a sampler that is not registered here."""
    variant: str | None
    reason: str
    flag_version: str | None
    salt: str | None
    engine_version: str
    is_exposure: bool
    flag_error: str | None

    sampler_id: str
    sampler_version: str
    sampler_options: Mapping[str, object]
    fallback_kind: str | None
    """A `SamplerFailure`; None where the decided sampler selected."""
    fallback_message: str | None

    encoder_id: str
    decode_version: str
    detector_version: str
    fps: float
    budget: int
    limited_by: str
    reducer_id: str
    profile: str
    llm_id: str
    video_seconds: float
    indices: Sequence[int]
    vision_tokens_before: int
    vision_tokens_after: int
    input_tokens: int | None
    output_tokens: int | None
    latency_s: Mapping[str, float]
    """Seconds by stage, and `total`."""
    encoder_device_s: float
    model_calls: int
    """Calls of a scoring model that the sampler made; 0 for samplers that have none."""

    state: str
    """An `AnswerState`: done, failed or cancelled."""
    error: str | None
    """The problem's type of an answer that failed."""


class FeedbackVerdict(StrEnum):
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackRecord:
    """What a user thought of one answer; the last one counts."""

    answer_id: str
    tenant: str
    video_id: str
    """So that it goes when the video does."""
    verdict: FeedbackVerdict
    reason: str
    created_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What a guard needs of one answer whose sampler the rollout rule dealt."""

    sequence: int
    """Ever increasing in the order of the commits: a reader that goes on after the last one it
    saw misses none."""
    answer_id: str
    tenant: str
    user_hash: str
    created_s: float
    """When the answer was asked for; it ended `total_s` later."""
    decided_sampler_id: str
    """The arm."""
    decided_sampler_version: str | None
    sampler_id: str
    fallback_kind: str | None
    """A `SamplerFailure`; None where the decided sampler selected."""
    encoder_id: str
    reducer_id: str
    profile: str
    llm_id: str
    vision_tokens: int
    """After reduction."""
    input_tokens: int | None
    output_tokens: int | None
    model_calls: int
    encoder_device_s: float
    selection_s: float | None
    total_s: float
    state: str
    """An `AnswerState`."""
    error: str | None
    """The problem's type of an answer that failed."""
    feedback: FeedbackVerdict | None
    """The last one until now; `feedback_after` tells what comes later."""

    @property
    def ended_s(self) -> float:
        """Seconds since the epoch."""
        return self.created_s + self.total_s


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackChange:
    """The feedback of one answer, as it counts now."""

    sequence: int
    """Ever increasing; a changed verdict gets a new one."""
    answer_id: str
    verdict: FeedbackVerdict
    created_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineScore:
    """How a sampler did in an evaluation outside the service, recorded by an operator."""

    sampler_id: str
    sampler_version: str | None
    """None: it holds for whatever version runs."""
    score: float
    """0..1, higher is better."""
    dataset: str
    num_questions: int
    who: str
    why: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCounts:
    """How many rows went, or are there."""

    selections: int
    comparisons: int
    feedback: int

    @property
    def total(self) -> int:
        return self.selections + self.comparisons + self.feedback
