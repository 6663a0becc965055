"""From what samplers chose to what a comparison says of it. Pure; the measures are the shadow's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.answer_documents import ScorerDocument
from app.compare_documents import (
    ComparedFrameDocument,
    ComparedSamplerDocument,
    ComparisonFailureDocument,
    SimilarityDocument,
)
from samplers.contract import FloatArray, IndexArray, Scene, TimeArray
from shadow.compare import (
    overlap_exact,
    redundancy,
    relevance,
    scene_coverage,
    temporal_distance_s,
)

MAX_CURVE_POINTS: Final = 1500
"""More than a picture's columns; the document stays below 100 kB."""
_DIGITS: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class ComparedVideo:
    """What the measures read of a video and a question."""

    video_id: str
    timestamps_s: TimeArray
    candidates: IndexArray
    scenes: list[Scene]
    query_vector: FloatArray | None
    """float32 `[D]`; None where the question has none."""
    budget: int


@dataclass(frozen=True, slots=True, eq=False)
class ComparedSampler:
    """What one sampler did."""

    sampler_id: str
    version: str
    options: dict[str, object]
    indices: list[int]
    """Empty where it failed."""
    embeddings: FloatArray
    """float32 `[len(indices), D]`."""
    latency_s: float
    scorer: ScorerDocument | None
    note: str | None
    failure: ComparisonFailureDocument | None


def similarity_curve(
    times_s: TimeArray, scores: FloatArray, max_points: int = MAX_CURVE_POINTS
) -> SimilarityDocument:
    """The scores `[C]` over time, or of groups of neighbours where there are more than so many.

    Scores that are not finite count as 0.
    """
    usable = np.nan_to_num(scores.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    if len(usable) <= max_points:
        return SimilarityDocument(
            seconds=_rounded(times_s), cosines=_rounded(usable), lowest=None, highest=None
        )
    starts = np.arange(max_points) * len(usable) // max_points
    sizes = np.diff(np.append(starts, len(usable)))
    return SimilarityDocument(
        seconds=_rounded(np.add.reduceat(times_s, starts) / sizes),
        cosines=_rounded(np.add.reduceat(usable, starts) / sizes),
        lowest=_rounded(np.minimum.reduceat(usable, starts)),
        highest=_rounded(np.maximum.reduceat(usable, starts)),
    )


def sampler_document(
    video: ComparedVideo, chosen: ComparedSampler, first: ComparedSampler
) -> ComparedSamplerDocument:
    """`first` is the sampler that the others' distances are measured from."""
    can_measure = bool(chosen.indices)
    can_relate = bool(chosen.indices and first.indices)
    return ComparedSamplerDocument(
        id=chosen.sampler_id,
        version=chosen.version,
        options=chosen.options,
        frames=_frames(video, chosen),
        relevance=_relevance(video, chosen) if can_measure else None,
        redundancy=redundancy(chosen.embeddings) if can_measure else None,
        scene_coverage=(
            scene_coverage(chosen.indices, video.scenes, video.candidates, video.budget)
            if can_measure
            else None
        ),
        distance_s=(
            temporal_distance_s(_times(video, chosen), _times(video, first)) if can_relate else None
        ),
        overlap=overlap_exact(chosen.indices, first.indices) if can_relate else None,
        latency_s=chosen.latency_s,
        scorer=chosen.scorer,
        note=chosen.note,
        failure=chosen.failure,
    )


def _relevance(video: ComparedVideo, chosen: ComparedSampler) -> float | None:
    if video.query_vector is None:
        return None
    return relevance(chosen.embeddings, video.query_vector)


def _frames(video: ComparedVideo, chosen: ComparedSampler) -> list[ComparedFrameDocument]:
    if video.query_vector is None:
        cosines: Sequence[float | None] = [None] * len(chosen.indices)
    else:
        cosines = _rounded(chosen.embeddings @ video.query_vector)
    return [
        ComparedFrameDocument(
            index=index,
            seconds=round(float(video.timestamps_s[index]), 6),
            cosine=cosine,
            picture=f"/v1/videos/{video.video_id}/frames/{index}.jpg",
        )
        for index, cosine in zip(chosen.indices, cosines, strict=True)
    ]


def _times(video: ComparedVideo, chosen: ComparedSampler) -> TimeArray:
    return video.timestamps_s[chosen.indices]


def _rounded(values: FloatArray | TimeArray) -> list[float]:
    rounded: list[float] = np.round(values.astype(np.float64), _DIGITS).tolist()
    return rounded
