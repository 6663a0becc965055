"""The comparisons whose two sides had least in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from shadow.records import ComparisonRecord, SideRecord
from shadow.report_document import ChosenFrame, Disagreement, DisagreementSide


def worst_disagreements(records: Sequence[ComparisonRecord], num_worst: int) -> list[Disagreement]:
    """Least overlap first, then the largest distance for the video's length.

    A question that was asked again of the same video stands once. Comparisons with a failed side,
    and those whose sides chose the same, are none.
    """
    times_asked = Counter(_subject(record) for record in records)
    found: dict[tuple[str, str], Disagreement] = {}
    for record in sorted(records, key=_closeness):
        if len(found) == num_worst:
            break
        subject = _subject(record)
        if subject not in found:
            disagreement = _disagreement(record, times_asked[subject] - 1)
            if disagreement is not None:
                found[subject] = disagreement
    return list(found.values())


def _subject(record: ComparisonRecord) -> tuple[str, str]:
    return record.video_id, record.question


def _closeness(record: ComparisonRecord) -> tuple[float, float, float, str]:
    within = 1.0 if record.overlap_within is None else record.overlap_within
    exact = 1.0 if record.overlap_exact is None else record.overlap_exact
    distance_s = record.temporal_distance_s or 0.0
    return within, exact, -distance_s / max(record.video_seconds, 1e-3), record.comparison_id


def _disagreement(record: ComparisonRecord, num_alike: int) -> Disagreement | None:
    exact, within = record.overlap_exact, record.overlap_within
    distance_s = record.temporal_distance_s
    if exact is None or within is None or distance_s is None or exact >= 1:
        return None
    return Disagreement(
        comparison_id=record.comparison_id,
        answer_id=record.answer_id,
        video_id=record.video_id,
        video_seconds=record.video_seconds,
        created=datetime.fromtimestamp(record.created_s, UTC),
        question=record.question,
        llm_id=record.llm_id,
        overlap_exact=exact,
        overlap_within=within,
        tolerance_s=record.tolerance_s,
        temporal_distance_s=distance_s,
        answers_agree=record.answers_agree,
        num_alike=num_alike,
        control=_side(record.control, record.shadow),
        shadow=_side(record.shadow, record.control),
    )


def _side(side: SideRecord, other: SideRecord) -> DisagreementSide:
    shared = set(side.indices) & set(other.indices)
    frames = [
        ChosenFrame(index=index, seconds=seconds, is_shared=index in shared)
        for index, seconds in zip(side.indices, side.seconds, strict=True)
    ]
    return DisagreementSide(
        sampler_id=side.sampler_id,
        frames=frames,
        relevance=side.relevance,
        redundancy=side.redundancy,
        latency_s=side.latency_s,
        answer=side.answer,
    )
