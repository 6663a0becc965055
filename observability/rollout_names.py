"""The metrics of staged rollouts.

The words of `flags/rollout_plan.py`, which this package must not import, are repeated here; a test
compares them.
"""

from __future__ import annotations

from enum import StrEnum

from observability.metric import Kind, Label, Metric


class RolloutStepLabel(StrEnum):
    """Kinds of steps."""

    STARTED = "started"
    ADVANCED = "advanced"
    PAUSED = "paused"
    RESUMED = "resumed"
    ROLLED_BACK = "rolled_back"
    COMPLETED = "completed"
    NEW_EPOCH = "new_epoch"


class RolloutStateLabel(StrEnum):
    """States of a rollout that is not over."""

    RUNNING = "running"
    PAUSED = "paused"


class GuardVerdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class GuardFigure(StrEnum):
    """What a guard is about."""

    SAMPLER_FAILURE = "sampler_failure"
    DEPENDENCY_FAILURE = "dependency_failure"
    FALLBACK = "fallback"
    ANSWER_ERROR = "answer_error"
    SELECTION_S = "selection_s"
    TOTAL_S = "total_s"
    VISION_TOKENS = "vision_tokens"
    MODEL_CALLS = "model_calls"
    ENCODER_DEVICE_S = "encoder_device_s"
    SHADOW_RELEVANCE = "shadow_relevance"
    ANSWER_AGREEMENT = "answer_agreement"
    FEEDBACK = "feedback"
    OFFLINE_SCORE = "offline_score"


ROLLOUT_STATE = Metric(
    "framegate.rollout.state",
    Kind.GAUGE,
    "1",
    "1 for the state of the rollout that is not over, else 0.",
    (Label("state", tuple(RolloutStateLabel)),),
)
ROLLOUT_WEIGHT = Metric(
    "framegate.rollout.weight",
    Kind.GAUGE,
    "{percent}",
    "The candidate's weight in the rollout that is not over; 0 where there is none.",
)
ROLLOUT_STAGE = Metric(
    "framegate.rollout.stage",
    Kind.GAUGE,
    "{stage}",
    "The stage of the rollout that is not over: 1, 2, ...; 0 where there is none.",
)
ROLLOUT_STEPS = Metric(
    "framegate.rollout.steps",
    Kind.COUNTER,
    "{step}",
    "Steps that this process took, by itself or by command.",
    (Label("kind", tuple(RolloutStepLabel)),),
)
ROLLOUT_GUARD_VERDICTS = Metric(
    "framegate.rollout.guard_verdicts",
    Kind.COUNTER,
    "{verdict}",
    "What the guards said, one a look.",
    (Label("figure", tuple(GuardFigure)), Label("verdict", tuple(GuardVerdict))),
)
ROLLOUT_LOOK_FAILURES = Metric(
    "framegate.rollout.look_failures",
    Kind.COUNTER,
    "{look}",
    "Looks at the rollout that failed: the ledger or the flag file was away; they are repeated.",
)

ROLLOUT_METRICS = (
    ROLLOUT_STATE,
    ROLLOUT_WEIGHT,
    ROLLOUT_STAGE,
    ROLLOUT_STEPS,
    ROLLOUT_GUARD_VERDICTS,
    ROLLOUT_LOOK_FAILURES,
)
