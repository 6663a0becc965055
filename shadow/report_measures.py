"""What a shadow report measures: one table of differences, one of costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np

from shadow.records import ComparisonRecord, SideRecord
from shadow.report_document import Unit
from shadow.report_statistics import Matrix


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of one comparison; None where a side failed or did not say."""

    name: str
    label: str
    unit: Unit
    no_difference: float
    """What it is where both sides chose, and took, the same."""
    description: str
    value: Callable[[ComparisonRecord], float | None]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one side of a comparison cost, failed or not."""

    name: str
    label: str
    unit: Unit
    difference_unit: Unit
    value: Callable[[SideRecord], float | None]


def _difference(name: str) -> Callable[[ComparisonRecord], float | None]:
    def difference(record: ComparisonRecord) -> float | None:
        control, shadow = getattr(record.control, name), getattr(record.shadow, name)
        return None if control is None or shadow is None else shadow - control

    return difference


def has_failure(record: ComparisonRecord) -> bool:
    return record.control.failure_kind is not None or record.shadow.failure_kind is not None


def _latency_difference(record: ComparisonRecord) -> float | None:
    return None if has_failure(record) else record.shadow.latency_s - record.control.latency_s


def _latency_ratio(record: ComparisonRecord) -> float | None:
    if has_failure(record) or record.control.latency_s <= 0 or record.shadow.latency_s <= 0:
        return None
    return record.shadow.latency_s / record.control.latency_s


MEASURES: Final = (
    Measure(
        "overlap_exact",
        "Frames in common",
        Unit.SHARE,
        1.0,
        "Shared frames, of the frames of the smaller set.",
        attrgetter("overlap_exact"),
    ),
    Measure(
        "overlap_within",
        "Frames in common, nearly",
        Unit.SHARE,
        1.0,
        "The same with frames matched one to one within the tolerance.",
        attrgetter("overlap_within"),
    ),
    Measure(
        "temporal_distance_s",
        "Distance in time",
        Unit.SECONDS,
        0.0,
        "How far the frames lie apart on average when both sets are matched in order.",
        attrgetter("temporal_distance_s"),
    ),
    Measure(
        "relevance_difference",
        "Relevance",
        Unit.COSINE_DIFFERENCE,
        0.0,
        "Mean cosine of the frames with the question, shadow less control. It is not accuracy.",
        _difference("relevance"),
    ),
    Measure(
        "redundancy_difference",
        "Redundancy",
        Unit.COSINE_DIFFERENCE,
        0.0,
        "Mean cosine of all pairs of the frames, shadow less control: lower is more varied.",
        _difference("redundancy"),
    ),
    Measure(
        "scene_coverage_difference",
        "Scene coverage",
        Unit.SHARE_DIFFERENCE,
        0.0,
        "Share of the shots that have a frame, shadow less control.",
        _difference("scene_coverage"),
    ),
    Measure(
        "latency_ratio",
        "Selection time, ratio",
        Unit.RATIO,
        1.0,
        "Shadow's by control's, geometric mean.",
        _latency_ratio,
    ),
    Measure(
        "latency_difference_s",
        "Selection time, difference",
        Unit.SECONDS_DIFFERENCE,
        0.0,
        "Shadow's less control's.",
        _latency_difference,
    ),
    Measure(
        "answers_agreement",
        "Answers agree",
        Unit.SHARE,
        1.0,
        "Exact for choices, else the cosine of the answers' embeddings.",
        attrgetter("answers_agree"),
    ),
)

_DURATION: Final = (Unit.SECONDS, Unit.SECONDS_DIFFERENCE)
_NUMBER: Final = (Unit.COUNT, Unit.COUNT_DIFFERENCE)

COSTS: Final = (
    Cost("selection_s", "Selection time", *_DURATION, attrgetter("latency_s")),
    Cost("model_calls", "Model calls", *_NUMBER, attrgetter("model_calls")),
    Cost("vision_tokens", "Vision tokens", *_NUMBER, attrgetter("vision_tokens")),
    Cost("output_tokens", "Output tokens", *_NUMBER, attrgetter("output_tokens")),
    Cost("encoder_device_s", "Encoder device time", *_DURATION, attrgetter("encoder_device_s")),
)


def measured(records: Sequence[ComparisonRecord]) -> Matrix:
    """float64 `[R, len(MEASURES)]`, NaN where a record has no finite value."""
    rows = [[_finite(measure.value(record)) for measure in MEASURES] for record in records]
    return np.array(rows, dtype=np.float64).reshape(len(records), len(MEASURES))


def costs(sides: Sequence[SideRecord]) -> Matrix:
    """float64 `[R, len(COSTS)]`, NaN where a side does not say."""
    rows = [[_finite(cost.value(side)) for cost in COSTS] for side in sides]
    return np.array(rows, dtype=np.float64).reshape(len(sides), len(COSTS))


def _finite(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else float(value)
