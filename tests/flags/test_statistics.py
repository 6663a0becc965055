"""Bounds for means and quantiles over users, at every look."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ville import BettingCS, BettingTest

from flags.statistics import (
    BETS,
    UserValues,
    log_evidence,
    mean_bounds,
    quantile_bounds,
    quantile_estimate,
)

ALPHA = 0.05
shares = st.lists(st.floats(0, 1), min_size=1, max_size=60).map(np.array)


def once_each(values: list[float]) -> UserValues:
    return UserValues(np.array(values), np.arange(len(values)))


@given(shares)
def test_bounds_enclose_the_mean_of_the_sample(values: np.ndarray) -> None:
    bounds = mean_bounds(values, ALPHA)
    assert 0 <= bounds.lower <= values.mean() + 1e-9
    assert values.mean() - 1e-9 <= bounds.upper <= 1


@given(shares, st.integers(0, 99))
def test_the_order_of_users_changes_nothing(values: np.ndarray, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(values)
    assert mean_bounds(shuffled, ALPHA) == mean_bounds(values, ALPHA)


@given(shares)
def test_bounds_of_mirrored_values_are_mirrored(values: np.ndarray) -> None:
    bounds, mirrored = mean_bounds(values, ALPHA), mean_bounds(1 - values, ALPHA)
    assert mirrored.lower == pytest.approx(1 - bounds.upper, abs=1e-6)
    assert mirrored.upper == pytest.approx(1 - bounds.lower, abs=1e-6)


@given(shares, st.floats(0.01, 0.98), st.floats(0.001, 0.01))
def test_evidence_against_a_greater_mean_is_never_greater(
    values: np.ndarray, mean: float, step: float
) -> None:
    counts = np.ones(len(values), dtype=np.int64)
    assert log_evidence(values, counts, mean + step) <= log_evidence(values, counts, mean) + 1e-9


def test_one_failure_among_very_many_users_shows_nothing() -> None:
    assert mean_bounds(np.array([1.0, *[0.0] * 5000]), ALPHA).lower == 0.0


def test_values_that_are_all_the_greatest_are_bounded_below_it() -> None:
    bounds = mean_bounds(np.ones(1000), ALPHA)
    assert 0.99 < bounds.lower < bounds.upper == 1.0


def test_no_users_bound_nothing() -> None:
    bounds = mean_bounds(np.empty(0), ALPHA)
    assert (bounds.lower, bounds.upper) == (0.0, 1.0)


def test_the_wealth_is_that_of_ville_with_the_same_constant_bets() -> None:
    """A tiny level makes ville bet the most that `c` allows, at every step."""
    values = np.random.default_rng(3).random(20)
    each = [
        BettingTest(0.4, alternative="greater", alpha=1e-300, c=bet).fit(values).e_values_[-1]
        for bet in BETS
    ]
    ours = log_evidence(values, np.ones(20, dtype=np.int64), 0.4)
    assert ours == pytest.approx(np.log(np.mean(each)))


@pytest.mark.parametrize("share", [0.003, 0.05, 0.5])
def test_bounds_are_about_as_close_as_those_of_ville(share: float) -> None:
    values = (np.random.default_rng(5).random(4000) < share).astype(np.float64)
    theirs = BettingCS(alpha=2 * ALPHA).fit(values).interval()
    ours = mean_bounds(values, ALPHA)
    assert ours.upper - ours.lower <= 1.35 * (theirs[1] - theirs[0])


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_the_true_mean_is_rarely_excluded_at_any_of_many_looks(share: float) -> None:
    """Users with several alike answers; a look after every tenth."""
    rng = np.random.default_rng(7)
    excluded = 0
    for _ in range(200):
        own = rng.beta(share, 1 - share, 200)
        values = rng.binomial(3, own) / 3
        bounds = [mean_bounds(values[:seen], ALPHA) for seen in range(10, 201, 10)]
        excluded += any(bound.lower > share for bound in bounds)
    assert excluded / 200 <= ALPHA


def test_a_quantile_is_the_usual_one_where_users_answer_once() -> None:
    values = np.random.default_rng(1).random(999)
    expected = np.quantile(values, 0.95, method="inverted_cdf")
    assert quantile_estimate(once_each(list(values)), 0.95) == expected


def test_a_user_with_many_answers_weighs_no_more_in_a_quantile() -> None:
    sample = UserValues(np.array([1.0, 2.0, *[9.0] * 50]), np.array([0, 1, *[2] * 50]))
    assert quantile_estimate(sample, 0.5) == 2.0


def test_the_upper_bound_of_a_tail_is_infinite_until_enough_users_are_there() -> None:
    few = quantile_bounds(once_each([1.0] * 30), 0.99, ALPHA)
    many = quantile_bounds(once_each([1.0] * 3000), 0.99, ALPHA)
    assert few.upper == np.inf
    assert many.upper == 1.0


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), min_size=1, max_size=200),
    st.sampled_from([0.5, 0.95]),
)
def test_bounds_of_a_quantile_are_those_of_trying_every_value(
    pairs: list[tuple[int, int]], quantile: float
) -> None:
    users = np.unique([user for user, _ in pairs], return_inverse=True)[1]
    sample = UserValues(np.array([float(value) for _, value in pairs]), users)
    bounds = quantile_bounds(sample, quantile, ALPHA)
    needed = -np.log(ALPHA)
    lower, upper = 0.0, np.inf
    for level in sorted(set(sample.values)):
        below = sample.shares_above(np.nextafter(level, -np.inf))
        above, counts = sample.shares_above(level)
        if log_evidence(*below, 1 - quantile) >= needed:
            lower = max(lower, level)
        if log_evidence(1 - above, counts, quantile) >= needed:
            upper = min(upper, level)
    assert (bounds.lower, bounds.upper) == (lower, upper)
    assert bounds.lower <= quantile_estimate(sample, quantile) <= bounds.upper


def test_the_true_quantile_is_rarely_excluded_at_any_of_many_looks() -> None:
    rng = np.random.default_rng(11)
    true = np.exp(1.6448536)
    excluded = 0
    for _ in range(200):
        values = np.exp(rng.normal(size=300))
        for seen in range(20, 301, 40):
            bounds = quantile_bounds(UserValues(values[:seen], np.arange(seen)), 0.95, ALPHA)
            if not bounds.lower <= true <= bounds.upper:
                excluded += 1
                break
    assert excluded / 200 <= 2 * ALPHA
