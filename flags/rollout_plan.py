"""What a rollout is: its plan, its guards, its state and its steps. Frozen values, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Figure(StrEnum):
    """What is known of one exposure, or of a user's mean over exposures."""

    SAMPLER_FAILURE = "sampler_failure"
    """0 or 1: the decided sampler failed for a reason of its own (not `dependency`)."""
    DEPENDENCY_FAILURE = "dependency_failure"
    """0 or 1: it failed because something that it needs was away."""
    FALLBACK = "fallback"
    """0 or 1: `uniform` stood in, for whatever reason."""
    ANSWER_ERROR = "answer_error"
    """0 or 1: the answer failed after its frames had been selected."""
    SELECTION_S = "selection_s"
    TOTAL_S = "total_s"
    VISION_TOKENS = "vision_tokens"
    """After reduction."""
    MODEL_CALLS = "model_calls"
    ENCODER_DEVICE_S = "encoder_device_s"
    SHADOW_RELEVANCE = "shadow_relevance"
    """Relevance of the frames that this arm's sampler chose, from shadow comparisons; -1..1."""
    ANSWER_AGREEMENT = "answer_agreement"
    """0..1, from answer-level shadow comparisons."""
    FEEDBACK = "feedback"
    """1 good, 0 bad."""
    OFFLINE_SCORE = "offline_score"
    """0..1, recorded by an operator from an offline evaluation of an arm."""


class Statistic(StrEnum):
    MEAN = "mean"
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"


class Comparison(StrEnum):
    AT_MOST = "<="
    AT_LEAST = ">="


class Reference(StrEnum):
    """What a guard's limit is measured from."""

    ABSOLUTE = "absolute"
    """The candidate arm's figure against `limit`."""
    DIFFERENCE = "difference"
    """The candidate arm's figure against the concurrent other arm's, plus `limit`."""
    RATIO = "ratio"
    """The candidate arm's figure against the concurrent other arm's, times `limit`."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One promise about the candidate. In text: `sampler_failure<=1%`, `selection_s.p95<=1.2x`,
    `answer_error<=+0.5%`; `dry:` before it watches without deciding."""

    figure: Figure
    statistic: Statistic
    comparison: Comparison
    limit: float
    reference: Reference
    is_dry_run: bool = False


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class RolloutState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"


class StepKind(StrEnum):
    """What one line of the audit log says happened."""

    STARTED = "started"
    ADVANCED = "advanced"
    PAUSED = "paused"
    RESUMED = "resumed"
    ROLLED_BACK = "rolled_back"
    COMPLETED = "completed"
    NEW_EPOCH = "new_epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    candidate: str
    """A sampler id; the first arm."""
    control: str
    """A sampler id; the second arm, and the flag's default."""
    stages: tuple[int, ...]
    """Weights of the candidate in percent, strictly increasing, 1..100."""
    dwell_s: float
    """The least time in a stage."""
    min_users: int
    """Closed users in each arm, in the running stage, before it may be left."""
    min_answers: int
    guards: tuple[Guard, ...]
    false_alarm_rate: float = 0.05
    """The chance that a candidate that keeps every promise is ever rolled back by a guard: over all
    guards, looks, stages and epochs."""
    user_window_s: float = 600.0
    """A user's observation is closed so long after the user's first exposure, or after
    `user_answers` of them."""
    user_answers: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFacts:
    """What must stay the same while exposures are analysed together."""

    candidate_version: str
    control_version: str
    encoder_id: str
    reducer_id: str
    profile: str
    llm_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One rollout as it stands."""

    rollout_id: str
    plan: RolloutPlan
    state: RolloutState
    stage: int
    """Position in `plan.stages`."""
    stage_started_s: float
    epoch: int
    """1, 2, ...: exposures of different epochs are never analysed together."""
    epoch_started_s: float
    salt: str
    facts: EpochFacts
    reason: str
    """Why it is in this state, in words for an operator."""

    @property
    def weight(self) -> int:
        """The candidate's weight in the flag file while the rollout runs or is paused."""
        return self.plan.stages[self.stage]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStep:
    """One line of the append-only audit log."""

    rollout_id: str
    sequence: int
    """1, 2, ... within the rollout."""
    kind: StepKind
    who: str
    why: str
    at_s: float
    old_weight: int | None
    new_weight: int
    stage: int
    epoch: int
    salt: str
    flag_digest_before: str
    """sha256 of the flag file's content before and after the step."""
    flag_digest_after: str
    evidence: Mapping[str, object]
    """The guards' figures at that moment; JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRecord:
    """A step that is about to change the flag file, committed before the file is touched.

    Whether the file was replaced is told by its digest: `step.flag_digest_before` or `_after`.
    """

    rollout: Rollout
    """As it stands once the step is done."""
    step: RolloutStep
