"""The measures: their bounds, their symmetry, and what they are of equal sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import wasserstein_distance

from samplers.contract import FloatArray, Scene, TimeArray
from shadow.compare import (
    answer_cosine,
    overlap_exact,
    overlap_within,
    redundancy,
    relevance,
    scene_coverage,
    temporal_distance_s,
)

index_sets = st.sets(st.integers(0, 60), min_size=1, max_size=14).map(sorted)
tolerances = st.sampled_from([0.0, 0.1, 0.25, 1.0, 100.0])


def times(indices: list[int]) -> TimeArray:
    """Uneven: the square root bends the axis."""
    return np.sqrt(np.array(indices, dtype=np.float64))


def unit_rows(num_rows: int, seed: int, spread: float = 1.0) -> FloatArray:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((num_rows, 8)) * spread + rng.standard_normal(8)
    units: FloatArray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return units


def best_matching(first: TimeArray, second: TimeArray, tolerance_s: float) -> int:
    fits = np.abs(first[:, None] - second[None, :]) <= tolerance_s
    rows, columns = linear_sum_assignment(fits, maximize=True)
    return int(fits[rows, columns].sum())


@given(index_sets, index_sets)
def test_exact_overlap_is_a_symmetric_share_and_1_only_within_the_other(
    first: list[int], second: list[int]
) -> None:
    shared = overlap_exact(first, second)
    assert 0 <= shared <= 1
    assert shared == overlap_exact(second, first)
    assert (shared == 1) == (set(first) <= set(second) or set(second) <= set(first))


@given(index_sets, index_sets, tolerances)
def test_overlap_within_is_the_best_matching_and_symmetric(
    first: list[int], second: list[int], tolerance_s: float
) -> None:
    a, b = times(first), times(second)
    shared = overlap_within(a, b, tolerance_s)
    assert shared == best_matching(a, b, tolerance_s) / min(len(a), len(b))
    assert shared == overlap_within(b, a, tolerance_s)
    assert overlap_exact(first, second) <= shared <= 1


def test_a_frame_is_matched_once_only() -> None:
    assert overlap_within(np.array([1.0]), np.array([0.9, 1.1]), 0.5) == 1.0
    assert overlap_within(np.array([1.0, 5.0]), np.array([0.9, 1.1]), 0.5) == 0.5


@given(index_sets, index_sets)
def test_temporal_distance_is_the_wasserstein_distance(first: list[int], second: list[int]) -> None:
    a, b = times(first), times(second)
    distance_s = temporal_distance_s(a, b)
    assert distance_s == pytest.approx(wasserstein_distance(a, b), abs=1e-9)
    assert distance_s == pytest.approx(temporal_distance_s(b, a), abs=1e-9)
    assert 0 <= distance_s <= max(a[-1], b[-1]) - min(a[0], b[0]) + 1e-9


@given(index_sets)
def test_equal_sets_overlap_wholly_at_no_distance(indices: list[int]) -> None:
    assert overlap_exact(indices, indices) == 1.0
    assert overlap_within(times(indices), times(indices), 0.0) == 1.0
    assert temporal_distance_s(times(indices), times(indices)) == 0.0


def test_sets_of_one_size_are_as_far_apart_as_their_frames_in_order() -> None:
    assert temporal_distance_s(np.array([0.0, 4.0]), np.array([1.0, 7.0])) == pytest.approx(2.0)


@given(st.integers(1, 12), st.integers(0, 1000), st.sampled_from([0.0, 0.01, 1.0, 5.0]))
def test_relevance_and_redundancy_are_means_of_cosines(
    num_rows: int, seed: int, spread: float
) -> None:
    rows, query = unit_rows(num_rows, seed, spread), unit_rows(1, seed + 1)[0]
    assert relevance(rows, query) == pytest.approx(float((rows @ query).mean()), abs=1e-5)
    assert -1 <= relevance(rows, query) <= 1
    pairs = [float(a @ b) for a, b in combinations(rows, 2)]
    if pairs:
        found = redundancy(rows)
        assert found == pytest.approx(np.mean(pairs), abs=1e-5)
        assert found is not None
        assert -1 <= found <= 1


def test_one_frame_is_not_redundant_to_anything() -> None:
    assert redundancy(unit_rows(1, 0)) is None


SCENES = [Scene(0, 10), Scene(10, 20), Scene(20, 21), Scene(21, 40)]
CANDIDATES = np.array([0, 5, 11, 15, 25, 35], dtype=np.int64)


def test_coverage_counts_shots_that_the_budget_can_reach() -> None:
    assert scene_coverage([0, 5], SCENES, CANDIDATES, 2) == 0.5
    assert scene_coverage([0, 11], SCENES, CANDIDATES, 2) == 1.0
    # The third shot holds no candidate, so three are all that anyone can reach.
    assert scene_coverage([0, 11, 25, 35], SCENES, CANDIDATES, 4) == 1.0
    assert scene_coverage([0, 5, 11], SCENES, CANDIDATES, 4) == pytest.approx(2 / 3)


@given(st.sets(st.sampled_from(CANDIDATES.tolist()), min_size=1), st.integers(0, 4))
def test_coverage_is_a_share(chosen: set[int], spare: int) -> None:
    found = scene_coverage(sorted(chosen), SCENES, CANDIDATES, len(chosen) + spare)
    assert found is not None
    assert 0 < found <= 1


def test_a_video_without_shots_has_no_coverage() -> None:
    assert scene_coverage([0], [], CANDIDATES, 4) is None


@given(st.integers(0, 500))
def test_agreement_of_answers_is_a_symmetric_share(seed: int) -> None:
    first, second = unit_rows(2, seed, 3.0)
    assert 0 <= answer_cosine(first, second) <= 1
    assert answer_cosine(first, second) == pytest.approx(answer_cosine(second, first))
    assert answer_cosine(first, first) == pytest.approx(1.0, abs=1e-6)


def test_thirty_hours_of_candidates_need_no_square_of_them() -> None:
    candidates = np.arange(108_000, dtype=np.int64)
    scenes = [Scene(start, start + 100) for start in range(0, 108_000, 100)]
    assert scene_coverage([5, 500], scenes, candidates, 64) == 2 / 64
