from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.contract import IndexArray, TimeArray
from samplers.logdet import (
    LEADERS,
    MOST_COMPARED_ROWS,
    MOST_PRODUCTS,
    GramKernel,
    LogDetObjective,
    compared_rows,
    greedy_rows,
    squared_norms,
    taken_rows,
)


def unit_rows(num_rows: int, dimension: int, seed: int) -> TimeArray:
    rows = np.random.default_rng(seed).standard_normal((num_rows, dimension))
    unit: TimeArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


@dataclass(frozen=True)
class HeldKernel:
    """A kernel whose matrix is given."""

    matrix: TimeArray

    def diagonal(self) -> TimeArray:
        return np.diag(self.matrix)

    def columns(self, rows: Sequence[int]) -> TimeArray:
        return self.matrix[list(rows)]

    def restricted(self, rows: IndexArray) -> HeldKernel:
        return HeldKernel(self.matrix[np.ix_(rows, rows)])


def objective_of(
    kernel: TimeArray, bonus: TimeArray, weight: float = 1.0, jitter: float = 0.01
) -> LogDetObjective:
    return LogDetObjective(HeldKernel(kernel), bonus, weight, jitter)


def worth(kernel: TimeArray, bonus: TimeArray, weight: float, rows: list[int]) -> float:
    """The objective with a jitter of 0.01, from its definition."""
    chosen = kernel[np.ix_(rows, rows)] + 0.01 * np.eye(len(rows))
    return float(bonus[rows].sum() + weight * np.linalg.slogdet(chosen).logabsdet)


def naive_greedy_rows(kernel: TimeArray, bonus: TimeArray, weight: float, count: int) -> list[int]:
    picks: list[int] = []
    for _ in range(count):
        rest = [row for row in range(len(bonus)) if row not in picks]
        picks.append(max(rest, key=lambda row: worth(kernel, bonus, weight, [*picks, row])))
    return picks


def plain_greedy_rows(kernel: TimeArray, bonus: TimeArray, weight: float, count: int) -> list[int]:
    """As `greedy_rows` with a jitter of 0.01, every row compared after every choice."""
    unexplained, factor = np.diag(kernel) + 0.01, np.empty((0, len(bonus)))
    picks: list[int] = []
    while len(picks) < count:
        gains = weight * np.log(unexplained) + bonus
        gains[picks] = -np.inf
        row = int(np.lexsort((-bonus, -gains))[0])
        picks.append(row)
        column = (kernel[row] - factor[:, row] @ factor) / np.sqrt(unexplained[row])
        factor = np.vstack([factor, column])
        unexplained = np.maximum(unexplained - column**2, 0.01)
    return picks


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_rows=st.integers(1, 25),
    dimension=st.integers(2, 12),
    weight=st.sampled_from([0.05, 0.6, 1.0, 5.0]),
)
def test_every_choice_is_the_best_one_by_the_definition(
    seed: int, num_rows: int, dimension: int, weight: float
) -> None:
    rows = unit_rows(num_rows, dimension, seed)
    kernel, bonus = rows @ rows.T, np.random.default_rng(seed).random(num_rows)
    count = min(num_rows, dimension, 6)
    picks = greedy_rows(objective_of(kernel, bonus, weight), count)
    assert picks == naive_greedy_rows(kernel, bonus, weight, count)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32), weight=st.sampled_from([0.01, 0.1, 1.0]), count=st.integers(1, 30)
)
def test_looking_ahead_among_the_leaders_changes_no_choice(
    seed: int, weight: float, count: int
) -> None:
    rows = np.repeat(unit_rows(8 * LEADERS // 5, 40, seed), 5, axis=0)
    rows += np.random.default_rng(seed).normal(0, 0.05, rows.shape)
    bonus = np.random.default_rng(seed).random(len(rows)).round(2)
    picks = greedy_rows(objective_of(rows @ rows.T, bonus, weight), count)
    assert picks == plain_greedy_rows(rows @ rows.T, bonus, weight, count)


def test_ties_go_to_the_higher_bonus_and_then_to_the_lower_row() -> None:
    # Orthogonal rows: the second gives up in bonus exactly what it gains nothing in return for.
    kernel = np.eye(4)
    assert greedy_rows(objective_of(kernel, np.zeros(4)), 4) == [0, 1, 2, 3]
    assert greedy_rows(objective_of(kernel, np.array([0.0, 1.0, 1.0, 2.0])), 4) == [3, 1, 2, 0]


def test_a_first_row_is_chosen_before_better_ones() -> None:
    kernel = np.eye(3)
    assert greedy_rows(objective_of(kernel, np.array([1.0, 0.0, 2.0])), 2, first=1) == [1, 2]


def test_a_first_row_need_not_be_among_the_leaders() -> None:
    bonus = np.linspace(1, 0, 3 * LEADERS)
    picks = greedy_rows(objective_of(np.eye(len(bonus)), bonus), 4, first=len(bonus) - 1)
    assert picks == [len(bonus) - 1, 0, 1, 2]


def test_what_rounding_takes_below_the_jitter_counts_as_the_jitter() -> None:
    kernel = np.array([[1.0, 1.01, 0.0], [1.01, 1.0, 0.0], [0.0, 0.0, 1.0]])
    bonus = np.array([20.0, 10.0, 0.0])
    assert greedy_rows(objective_of(kernel, bonus), 3) == [0, 1, 2]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_never_chosen_and_spoil_no_other(bad: float) -> None:
    rows = unit_rows(12, 6, seed=3)
    clean = greedy_rows(objective_of(rows @ rows.T, np.zeros(12)), 5, first=4)
    spoilt = np.vstack([rows, np.full(6, bad)])
    with np.errstate(invalid="ignore"):
        kernel = spoilt @ spoilt.T
    assert greedy_rows(objective_of(kernel, np.zeros(13)), 5, first=4) == clean
    assert sorted(greedy_rows(objective_of(kernel, np.zeros(13)), 13)) == list(range(12))
    assert greedy_rows(objective_of(kernel, np.zeros(13)), 1, first=12) != [12]


def test_a_bonus_that_is_not_finite_closes_its_row() -> None:
    assert greedy_rows(objective_of(np.eye(3), np.array([np.nan, 0.0, np.inf])), 3) == [1]


def test_duplicates_come_last() -> None:
    rows = unit_rows(5, 8, seed=1)
    kernel = np.vstack([rows, rows]) @ np.vstack([rows, rows]).T
    picks = greedy_rows(objective_of(kernel, np.zeros(10)), 10)
    assert sorted(row % 5 for row in picks[:5]) == [0, 1, 2, 3, 4]
    assert sorted(picks) == list(range(10))


def test_single_precision_products_choose_as_double_precision_ones() -> None:
    rows = unit_rows(400, 64, seed=5)
    single = rows.astype(np.float32)
    of_single = LogDetObjective(GramKernel(single), np.zeros(400), 1.0, 1e-6)
    of_double = objective_of(rows @ rows.T, np.zeros(400), jitter=1e-6)
    assert greedy_rows(of_single, 32, first=7) == greedy_rows(of_double, 32, first=7)


def test_norms_that_are_one_up_to_rounding_are_one() -> None:
    norms = squared_norms(np.array([[1.0 + 1e-4, 0.0], [0.0, 0.0], [2.0, 0.0], [np.nan, 0.0]]))
    np.testing.assert_array_equal(norms, [1.0, 0.0, 4.0, np.nan])


def test_all_rows_are_compared_where_that_is_affordable() -> None:
    assert compared_rows(None, 3600, 64, 1152).tolist() == list(range(3600))


@pytest.mark.parametrize("count", [1, 8, 64, 512])
@pytest.mark.parametrize("dimension", [16, 1152, 4096])
def test_the_compared_rows_bound_the_work(count: int, dimension: int) -> None:
    scores = np.random.default_rng(0).random(108_000)
    rows = compared_rows(scores, len(scores), count, dimension)
    assert 2 * count <= len(rows) <= MOST_COMPARED_ROWS
    assert len(rows) == 2 * count or len(rows) * count * (dimension + count) <= MOST_PRODUCTS
    assert scores[rows].min() >= np.sort(scores)[-len(rows)]


def test_without_scores_the_compared_rows_are_spread_evenly() -> None:
    rows = compared_rows(None, 60_000, 1, 16)
    assert len(rows) == MOST_COMPARED_ROWS
    assert set(np.diff(rows).tolist()) == {3}


def test_taking_all_rows_copies_nothing() -> None:
    features = unit_rows(6, 3, seed=0)
    assert taken_rows(features, np.arange(6)) is features
    np.testing.assert_array_equal(taken_rows(features, np.array([1, 4])), features[[1, 4]])
