from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.contract import IndexArray, TimeArray
from samplers.segment_programme import (
    MOST_SEGMENT_PICKS,
    MOST_SEGMENTED_ROWS,
    segment_compared_rows,
    segmented_rows,
)

JITTER = 0.01


@dataclass(frozen=True)
class HeldKernel:
    """A kernel whose matrix is given."""

    matrix: TimeArray

    def diagonal(self) -> TimeArray:
        return np.diag(self.matrix)

    def block(self, rows: IndexArray, columns: IndexArray) -> TimeArray:
        return self.matrix[np.ix_(rows, columns)]


def made_kernel(num_rows: int, seed: int) -> tuple[HeldKernel, TimeArray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((num_rows, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return HeldKernel(rows @ rows.T), rng.random(num_rows)


def log_det(kernel: HeldKernel, rows: list[int]) -> float:
    chosen = kernel.matrix[np.ix_(rows, rows)] + JITTER * np.eye(len(rows))
    return float(np.linalg.slogdet(chosen).logabsdet) if rows else 0.0


def gain(kernel: HeldKernel, bonus: TimeArray, given: list[int], rows: list[int]) -> float:
    """Bonus and conditional log-determinant, from the definition."""
    conditional = log_det(kernel, [*given, *rows]) - log_det(kernel, given)
    return float(bonus[rows].sum()) + conditional


def naive_segmented_rows(
    kernel: HeldKernel, bonus: TimeArray, count: int, segment_size: int
) -> list[int]:
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for start in range(0, len(bonus), segment_size):
        segment = range(start, min(start + segment_size, len(bonus)))
        extended: dict[int, tuple[float, list[int]]] = {}
        for size in sorted(best):
            worth, trace = best[size]
            chosen: list[int] = []
            while True:
                total = worth + gain(kernel, bonus, trace[-1:], chosen)
                reached = size + len(chosen)
                if reached not in extended or total > extended[reached][0] + 1e-12:
                    extended[reached] = (total, [*trace, *sorted(chosen)])
                rest = [row for row in segment if row not in chosen]
                if not rest or reached == count:
                    break
                given = trace[-1:]
                chosen = [
                    *chosen,
                    max(rest, key=lambda row: gain(kernel, bonus, given, [*chosen, row])),
                ]
        best = extended
    return best[count][1]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_rows=st.integers(2, 14),
    segment_size=st.integers(2, 6),
    share=st.floats(0, 1),
)
def test_the_programme_equals_its_definition(
    seed: int, num_rows: int, segment_size: int, share: float
) -> None:
    kernel, bonus = made_kernel(num_rows, seed)
    count = max(1, round(share * num_rows))
    rows = segmented_rows(kernel, bonus, count, segment_size, JITTER)
    assert rows.tolist() == naive_segmented_rows(kernel, bonus, count, segment_size)


def test_one_frame_of_each_segment_is_chosen_as_well_as_can_be() -> None:
    # Two segments, one frame each: the best pair, where the first is also its segment's best.
    kernel, bonus = made_kernel(8, seed=3)
    bonus[2], bonus[6] = 5.0, 5.0
    rows = segmented_rows(kernel, bonus, 2, 4, JITTER).tolist()
    worths = {
        pair: gain(kernel, bonus, [], [pair[0]]) + gain(kernel, bonus, [pair[0]], [pair[1]])
        for pair in combinations(range(8), 2)
    }
    assert tuple(rows) == max(worths, key=lambda pair: worths[pair])


def test_a_frame_may_repeat_one_that_lies_segments_before() -> None:
    rows = np.eye(3)[[0, 0, 1, 1, 2, 2, 0, 0]]
    kernel = HeldKernel(rows @ rows.T)
    assert segmented_rows(kernel, np.zeros(8), 4, 2, JITTER).tolist() == [0, 2, 4, 6]


def test_a_last_segment_that_is_shorter_is_used_to_its_end() -> None:
    kernel, bonus = made_kernel(7, seed=1)
    assert segmented_rows(kernel, bonus, 7, 3, JITTER).tolist() == list(range(7))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_never_chosen(bad: float) -> None:
    kernel, bonus = made_kernel(12, seed=2)
    matrix = kernel.matrix.copy()
    matrix[4:6], matrix[:, 4:6] = bad, bad
    spoilt = HeldKernel(matrix)
    assert not {4, 5} & set(segmented_rows(spoilt, bonus, 5, 4, JITTER).tolist())
    assert len(segmented_rows(spoilt, bonus, 12, 4, JITTER)) == 10
    assert len(segmented_rows(HeldKernel(np.full((6, 6), bad)), bonus[:6], 3, 2, JITTER)) == 0


@pytest.mark.parametrize("segment_size", [2, 32, 128, 512])
@pytest.mark.parametrize("count", [1, 8, 64, MOST_SEGMENT_PICKS])
def test_the_rows_cut_into_segments_are_bounded(count: int, segment_size: int) -> None:
    scores = np.random.default_rng(0).random(108_000)
    rows = segment_compared_rows(scores, len(scores), count, segment_size)
    assert 2 * count <= len(rows) <= MOST_SEGMENTED_ROWS
    assert scores[rows].min() >= np.sort(scores)[-len(rows)]
    spread = segment_compared_rows(None, len(scores), count, segment_size)
    assert len(spread) == len(rows)
    assert segment_compared_rows(scores, 2 * count, count, segment_size).tolist() == list(
        range(2 * count)
    )
