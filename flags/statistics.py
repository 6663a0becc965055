"""Confidence bounds that hold at every look, for means and quantiles over users.

A gambler bets against "the mean of these values in [0, 1] is at most m": each value multiplies the
wealth by 1 + bet · (value − m). When the claim is true no system wins in the long run: the chance
that the wealth *ever* reaches 1/alpha is at most alpha (Ville 1939; Waudby-Smith and Ramdas 2024).
A claim against which the wealth is so great is excluded, now and at any later look. The gambler
divides the wealth over a few constant bets: a large one finds a rare failure that became
frequent, a small one finds a slight shift.

Constant bets make the wealth independent of the order and monotone in m and in the values, so that
bounds are roots, and bounds of quantiles are the values at which an excluded share begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

BETS: Final = 0.95 * 2.0 ** -np.arange(7)
"""Shares of the largest bet that can never ruin the gambler."""
_ROOT_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Bounds:
    """One-sided bounds, each with its own chance alpha of being wrong at any look."""

    lower: float
    upper: float


def mean_bounds(values: Floats, alpha: float) -> Bounds:
    """Bounds of the mean of `values` `[U]`, each in 0..1 and of another user."""
    distinct, counts = np.unique(values, return_counts=True)
    lower = _lower_bound(distinct, counts, alpha)
    return Bounds(lower, 1.0 - _lower_bound(1.0 - distinct, counts, alpha))


def log_evidence(values: Floats, counts: Ints, mean: float) -> float:
    """Natural logarithm of the wealth won against "the mean is at most `mean`" (0 < `mean` < 1).

    `values`: `[D]` in 0..1, each seen `counts` times.
    """
    gains = np.log(1.0 - BETS[:, None] + BETS[:, None] * (values / mean))
    return float(np.logaddexp.reduce(gains @ counts)) - math.log(len(BETS))


def _lower_bound(distinct: Floats, counts: Ints, alpha: float) -> float:
    total = counts.sum()
    mean = float(distinct @ counts) / total if total else 0.0
    if mean < _ROOT_TOLERANCE:
        return 0.0
    least = mean * _ROOT_TOLERANCE
    needed = -math.log(alpha)

    # At the sample's own mean the wealth is at most 1 (the logarithm is concave).
    def surplus(candidate: float) -> float:
        return log_evidence(distinct, counts, candidate) - needed

    top = min(mean, 1.0 - _ROOT_TOLERANCE)
    if surplus(least) <= 0.0:
        return 0.0
    root = float(brentq(surplus, least, top, xtol=_ROOT_TOLERANCE * mean, rtol=_ROOT_TOLERANCE))
    return root * (1.0 - 4 * _ROOT_TOLERANCE)


@dataclass(frozen=True, slots=True)
class UserValues:
    """Values `[E]` of several exposures a user; `user` `[E]` is dense, 0..U-1."""

    values: Floats
    user: Ints

    def shares_above(self, threshold: float) -> tuple[Floats, Ints]:
        """The users' shares of values above `threshold`: distinct shares, and how many users."""
        answers = np.bincount(self.user)
        above = np.bincount(self.user[self.values > threshold], minlength=len(answers))
        codes, counts = np.unique(above * (answers.max() + 1) + answers, return_counts=True)
        hits, of = np.divmod(codes, answers.max() + 1)
        return hits / of, counts


def quantile_estimate(sample: UserValues, quantile: float) -> float:
    """The least value that at most `1 - quantile` of an average user's values exceed."""
    order = np.argsort(sample.values, kind="stable")
    weights = 1.0 / np.bincount(sample.user)[sample.user[order]]
    reached = np.cumsum(weights) >= quantile * weights.sum() - 1e-9
    return float(sample.values[order[np.argmax(reached)]])


def quantile_bounds(sample: UserValues, quantile: float, alpha: float) -> Bounds:
    """Bounds of the `quantile` of an average user's values; `upper` is infinite until enough users
    are there, `lower` is 0.

    The quantile lies above a value v exactly when more than `1 - quantile` exceed v, so that it
    is bounded by the values for which that share, or a smaller one, is excluded.
    """
    levels = np.unique(sample.values)
    excess, needed = 1.0 - quantile, -math.log(alpha)

    def is_above(level: int) -> bool:
        threshold = levels[level - 1] if level else -np.inf
        return log_evidence(*sample.shares_above(threshold), excess) >= needed

    def is_not_below(level: int) -> bool:
        shares, counts = sample.shares_above(levels[level])
        return log_evidence(1.0 - shares, counts, quantile) < needed

    above = _count_leading(len(levels), is_above)
    not_below = _count_leading(len(levels), is_not_below)
    return Bounds(
        float(levels[above - 1]) if above else 0.0,
        float(levels[not_below]) if not_below < len(levels) else np.inf,
    )


def _count_leading(length: int, holds: Callable[[int], bool]) -> int:
    """How many of the positions 0..length-1 hold, when those that do come first."""
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if holds(middle) else (low, middle)
    return low
