"""What a comparison says of a sampler, and the curve beneath."""

from __future__ import annotations

import numpy as np
import pytest

from app.compare_documents import ComparisonFailureDocument
from app.compare_measures import (
    MAX_CURVE_POINTS,
    ComparedSampler,
    ComparedVideo,
    sampler_document,
    similarity_curve,
)
from samplers.contract import Scene
from shadow.compare import overlap_exact, redundancy, relevance, temporal_distance_s

EMBEDDINGS = np.eye(4, dtype=np.float32)
VECTOR = np.array([0.6, 0.8, 0.0, 0.0], dtype=np.float32)


def video(vector: np.ndarray[tuple[int], np.dtype[np.float32]] | None = VECTOR) -> ComparedVideo:
    return ComparedVideo(
        video_id="ab" * 32,
        timestamps_s=np.arange(8, dtype=np.float64) / 2,
        candidates=np.array([0, 2, 4, 6], dtype=np.int64),
        scenes=[Scene(0, 4), Scene(4, 8)],
        query_vector=vector,
        budget=2,
    )


def chosen(*indices: int) -> ComparedSampler:
    rows = [index // 2 for index in indices]
    failure = None if indices else ComparisonFailureDocument(kind="raised", message="no")
    return ComparedSampler(
        sampler_id="one",
        version="1",
        options={"t1": 0.2},
        indices=list(indices),
        embeddings=EMBEDDINGS[rows],
        latency_s=0.01,
        scorer=None,
        note=None,
        failure=failure,
    )


def test_a_short_curve_is_the_scores() -> None:
    times_s = np.array([0.0, 0.5, 1.5])
    curve = similarity_curve(times_s, np.array([0.1, -0.2, np.nan], dtype=np.float32))
    assert curve.seconds == [0.0, 0.5, 1.5]
    assert curve.cosines == [0.1, -0.2, 0.0]
    assert curve.lowest is curve.highest is None


@pytest.mark.parametrize("num_rows", [MAX_CURVE_POINTS + 1, 3600, 108_000])
def test_a_long_curve_is_grouped_and_loses_no_peak(num_rows: int) -> None:
    scores = np.zeros(num_rows, dtype=np.float32)
    scores[num_rows // 2] = 0.75
    scores[0] = -0.5
    curve = similarity_curve(np.arange(num_rows, dtype=np.float64), scores)

    assert curve.lowest is not None
    assert curve.highest is not None
    assert len(curve.seconds) == len(curve.cosines) == MAX_CURVE_POINTS
    assert (min(curve.lowest), max(curve.highest)) == (-0.5, 0.75)
    assert curve.seconds == sorted(set(curve.seconds))
    for low, mean, high in zip(curve.lowest, curve.cosines, curve.highest, strict=True):
        assert low <= mean <= high


def test_the_measures_are_the_shadows() -> None:
    one, other = chosen(0, 2), chosen(2, 6)
    document = sampler_document(video(), other, one)
    times = [np.array(seconds) for seconds in ([1.0, 3.0], [0.0, 1.0])]

    assert document.relevance == pytest.approx(relevance(EMBEDDINGS[[1, 3]], VECTOR))
    assert document.redundancy == redundancy(EMBEDDINGS[[1, 3]])
    assert document.distance_s == temporal_distance_s(*times)
    assert document.overlap == overlap_exact([2, 6], [0, 2]) == 0.5
    assert document.scene_coverage == 1.0
    assert [(f.index, f.seconds, f.cosine) for f in document.frames] == [
        (2, 1.0, pytest.approx(0.8)),
        (6, 3.0, 0.0),
    ]


def test_a_failure_has_no_measures_and_gives_the_others_none_of_distance() -> None:
    failed = sampler_document(video(), chosen(), chosen(0))
    after = sampler_document(video(), chosen(0), chosen())

    assert failed.failure is not None
    assert failed.frames == []
    assert failed.relevance is failed.redundancy is failed.scene_coverage is None
    assert after.distance_s is after.overlap is None
    assert after.relevance == pytest.approx(0.6)


def test_without_the_questions_vector_nothing_is_said_of_similarity() -> None:
    document = sampler_document(video(None), chosen(0, 2), chosen(0, 2))
    assert document.relevance is None
    assert [frame.cosine for frame in document.frames] == [None, None]
    assert document.redundancy == 0.0
