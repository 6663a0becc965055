"""The shadow's metrics and the values of their labels; `names` lists them with the rest."""

from __future__ import annotations

from enum import StrEnum

from observability.metric import SAMPLER_LABEL, SECONDS_BUCKETS, Kind, Label, Metric


class ShadowShed(StrEnum):
    """Why an answer that the flags wanted compared was not."""

    LOAD = "load"
    """Too many answers were running."""
    QUEUE_FULL = "queue_full"
    TENANT_CAP = "tenant_cap"
    RESTING = "resting"
    """The shadow sampler overran too often; it rests a while."""
    CONTROL_FAILED = "control_failed"
    """The control, run again beside the shadow, failed there."""
    VIDEO_GONE = "video_gone"
    """The video was deleted or evicted before its turn came."""
    NO_PROCESS = "no_process"
    """The shadow's process did not start."""
    CLOSING = "closing"
    """The gateway is shutting down."""


class ShadowOutcome(StrEnum):
    """How a comparison ended."""

    COMPARED = "compared"
    SHADOW_FAILED = "shadow_failed"
    CONTROL_FAILED = "control_failed"


class ShadowAnswer(StrEnum):
    """What became of an answer from the shadow's frames."""

    COMPARED = "compared"
    SHED = "shed"
    """Answers of users were waiting, or too many were running."""
    FAILED = "failed"


class ShadowSide(StrEnum):
    CONTROL = "control"
    SHADOW = "shadow"


SHARE_BUCKETS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Of what lies between 0 and 1."""

COSINE_BUCKETS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0)
"""Cosines of pictures and texts lie close together. A histogram with negative ones has no sum."""

COMPARISON_KIND = Label("kind", ("sampler", "a_a"))
"""Against another sampler, or the control against itself: the noise floor."""

SHADOW_COMPARISONS = Metric(
    "framegate.shadow.comparisons",
    Kind.COUNTER,
    "{comparison}",
    "Comparisons with this sampler in shadow.",
    (SAMPLER_LABEL, COMPARISON_KIND, Label("outcome", tuple(ShadowOutcome))),
)
SHADOW_SHED = Metric(
    "framegate.shadow.shed",
    Kind.COUNTER,
    "{comparison}",
    "Comparisons that the flags asked for and that were not made.",
    (Label("reason", tuple(ShadowShed)),),
)
SHADOW_QUEUE = Metric(
    "framegate.shadow.queue", Kind.GAUGE, "{comparison}", "Comparisons that wait for their turn."
)
SHADOW_PROCESS_RESTARTS = Metric(
    "framegate.shadow.process_restarts",
    Kind.COUNTER,
    "{restart}",
    "Shadow processes that were killed or died, and were replaced.",
)
SHADOW_SELECTION_DURATION = Metric(
    "framegate.shadow.selection_duration",
    Kind.HISTOGRAM,
    "s",
    "Time of one selection in the shadow's process.",
    (SAMPLER_LABEL, Label("side", tuple(ShadowSide))),
    SECONDS_BUCKETS,
)
SHADOW_OVERLAP = Metric(
    "framegate.shadow.overlap",
    Kind.HISTOGRAM,
    "1",
    "Share of frames, within the tolerance, that both sides chose.",
    (SAMPLER_LABEL, COMPARISON_KIND),
    SHARE_BUCKETS,
)
SHADOW_TEMPORAL_DISTANCE = Metric(
    "framegate.shadow.temporal_distance",
    Kind.HISTOGRAM,
    "s",
    "Mean distance in time of the two sides' frames, matched in order.",
    (SAMPLER_LABEL, COMPARISON_KIND),
    SECONDS_BUCKETS,
)
SHADOW_RELEVANCE = Metric(
    "framegate.shadow.relevance",
    Kind.HISTOGRAM,
    "1",
    "Mean cosine of the chosen frames with the question; 0 where it is negative.",
    (SAMPLER_LABEL, Label("side", tuple(ShadowSide))),
    COSINE_BUCKETS,
)
SHADOW_ANSWERS = Metric(
    "framegate.shadow.answers",
    Kind.COUNTER,
    "{answer}",
    "Answers from the shadow's frames that the flags asked for.",
    (Label("outcome", tuple(ShadowAnswer)),),
)
SHADOW_AGREEMENT = Metric(
    "framegate.shadow.agreement",
    Kind.HISTOGRAM,
    "1",
    "How far the answers from both sides' frames agree.",
    (SAMPLER_LABEL, COMPARISON_KIND),
    SHARE_BUCKETS,
)

SHADOW_MODEL_CALLS = Metric(
    "framegate.shadow.model_calls",
    Kind.COUNTER,
    "{call}",
    "Calls of the scoring model in shadow.",
    (SAMPLER_LABEL, Label("side", tuple(ShadowSide))),
)
SHADOW_MODEL_TOKENS = Metric(
    "framegate.shadow.model_tokens",
    Kind.COUNTER,
    "{token}",
    "Tokens that the scoring model read and wrote in shadow.",
    (SAMPLER_LABEL, Label("side", tuple(ShadowSide))),
)

SHADOW_METRICS = tuple(value for value in [*globals().values()] if isinstance(value, Metric))
"""Every metric above."""
