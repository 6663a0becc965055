"""shadow/report_statistics.py."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from shadow.report_statistics import Estimate, Matrix, estimate_means, share_bounds


def estimated(values: Matrix, users: list[int] | Matrix) -> Estimate:
    [found] = estimate_means(values[:, None], np.asarray(users, dtype=np.int64))
    assert found is not None
    return found


def width(found: Estimate) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_the_unit_is_the_user_not_the_answer() -> None:
    rng = np.random.default_rng(5)
    of_user = rng.normal(size=40)
    one_each = estimated(of_user, list(range(40)))
    copied = estimated(np.repeat(of_user, 25), np.repeat(np.arange(40.0), 25))
    as_if_independent = estimated(np.repeat(of_user, 25), list(range(1000)))

    assert copied.mean == pytest.approx(one_each.mean)
    assert width(copied) == pytest.approx(width(one_each))
    assert width(copied) > 3 * width(as_if_independent)


def test_bounds_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(11)
    num_held = 0
    for _ in range(200):
        # Users differ, and a few of them ask much more than the others.
        sizes = np.minimum(1 + rng.pareto(1.5, 30).astype(np.int64), 100)
        users = np.repeat(np.arange(30.0), sizes)
        values = rng.normal(size=30)[users.astype(np.int64)] + rng.normal(size=len(users))
        found = estimated(values, users)
        num_held += found.low is not None and found.low <= 0 <= (found.high or 0.0)
    # 95 % is asked for; so skewed a sample costs some of it.
    assert 180 <= num_held <= 200


def test_the_same_values_give_the_same_bounds() -> None:
    values = np.random.default_rng(1).normal(size=50)
    assert estimated(values, list(range(50))) == estimated(values, list(range(50)))


def test_equal_values_have_bounds_without_width_around_the_mean() -> None:
    found = estimated(np.full(12, 0.1), list(range(12)))
    assert found.low is not None
    assert found.low <= found.mean <= (found.high or 0.0)
    assert width(found) < 1e-12


def test_missing_values_count_neither_as_answers_nor_as_users() -> None:
    values = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, np.nan]])
    first, second = estimate_means(values, np.array([0, 1, 2]))
    assert first == Estimate(2.0, None, None)
    assert second == Estimate(5.0, None, None)


def test_a_column_without_values_and_no_rows_at_all_are_none() -> None:
    assert estimate_means(np.full((3, 1), np.nan), np.array([0, 1, 2])) == [None]
    assert estimate_means(np.empty((0, 2)), np.empty(0, dtype=np.int64)) == [None, None]


@pytest.mark.parametrize(("num_hit", "num_all"), [(0, 50), (1, 50), (7, 20), (20, 20)])
def test_the_bounds_of_a_share_are_clopper_and_pearsons(num_hit: int, num_all: int) -> None:
    expected = stats.binomtest(num_hit, num_all).proportion_ci(0.95, method="exact")
    assert share_bounds(num_hit, num_all) == pytest.approx((expected.low, expected.high))
