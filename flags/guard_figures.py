"""Measures the figure of a guard in both arms, with bounds that hold at every look."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from flags.figures import FIGURES
from flags.guard_look import Look, error_rate
from flags.guard_report import ArmFigure
from flags.rollout_plan import Figure, Guard, Reference, Statistic
from flags.statistics import (
    Floats,
    UserValues,
    mean_bounds,
    quantile_bounds,
    quantile_estimate,
)

CAP_FACTOR: Final = 10.0
"""Values without a natural limit are clipped at so many times what the guard allows."""
BURN_IN_USERS: Final = 100
"""At most so many users of the other arm set that cap, and are then left out of its bounds."""

_QUANTILES: Final = {Statistic.P50: 0.5, Statistic.P95: 0.95, Statistic.P99: 0.99}


def measure(guard: Guard, look: Look) -> tuple[ArmFigure, ArmFigure]:
    """The figure in the candidate arm and in the other arm."""
    candidate = look.values(look.observations.candidate, guard.figure)
    control = look.values(look.observations.control, guard.figure)
    if guard.figure is Figure.OFFLINE_SCORE:
        return _given(candidate), _given(control)
    alpha = error_rate(guard, look)
    if guard.statistic is not Statistic.MEAN:
        quantile = _QUANTILES[guard.statistic]
        return _quantile(candidate, quantile, alpha), _quantile(control, quantile, alpha)
    return _means(guard, look, candidate, control)


def mean_of_users(sample: UserValues) -> Floats:
    """[U] each user's mean."""
    return np.bincount(sample.user, weights=sample.values) / np.bincount(sample.user)


def _given(sample: UserValues) -> ArmFigure:
    """An offline score is recorded, not sampled: the last one, without a margin."""
    if not len(sample.values):
        return _unknown(sample)
    score = float(sample.values[-1])
    return ArmFigure(users=_num_users(sample), estimate=score, lower=score, upper=score)


def _quantile(sample: UserValues, quantile: float, alpha: float) -> ArmFigure:
    if not len(sample.values):
        return _unknown(sample)
    bounds = quantile_bounds(sample, quantile, alpha)
    return ArmFigure(
        users=_num_users(sample),
        estimate=quantile_estimate(sample, quantile),
        lower=bounds.lower,
        upper=bounds.upper,
    )


def _means(
    guard: Guard, look: Look, candidate: UserValues, control: UserValues
) -> tuple[ArmFigure, ArmFigure]:
    traits, alpha = FIGURES[guard.figure], error_rate(guard, look)
    if traits.high is not None:
        scale = _Scale(traits.low, traits.high)
        return scale.figure(candidate, alpha), scale.figure(control, alpha)
    if guard.reference is Reference.ABSOLUTE:
        scale = _Scale(0.0, CAP_FACTOR * guard.limit)
        return scale.figure(candidate, alpha), scale.figure(control, alpha)
    burn_in = max(1, min(BURN_IN_USERS, look.rollout.plan.min_users))
    if _num_users(control) < burn_in:
        return _unknown(candidate), _unknown(control)
    typical = float(mean_of_users(control)[:burn_in].mean())
    scale = _Scale(0.0, _cap(guard, typical))
    return scale.figure(candidate, alpha), scale.figure(control, alpha, left_out=burn_in)


def _cap(guard: Guard, typical: float) -> float:
    if guard.reference is Reference.RATIO:
        allowed = typical * max(1.0, guard.limit)
    else:
        allowed = typical + abs(guard.limit)
    return CAP_FACTOR * allowed or 1.0


@dataclass(frozen=True, slots=True)
class _Scale:
    """The range that a mean's values are clipped to."""

    low: float
    high: float

    def figure(self, sample: UserValues, alpha: float, left_out: int = 0) -> ArmFigure:
        if not len(sample.values):
            return _unknown(sample)
        width = self.high - self.low
        clipped = np.clip(sample.values, self.low, self.high)
        scaled = np.clip((clipped - self.low) / width, 0.0, 1.0)
        means = np.clip(mean_of_users(UserValues(scaled, sample.user)), 0.0, 1.0)
        bounds = mean_bounds(means[left_out:], alpha)
        return ArmFigure(
            users=len(means),
            estimate=self.low + width * float(means.mean()),
            lower=self.low + width * bounds.lower,
            upper=self.low + width * bounds.upper,
        )


def _num_users(sample: UserValues) -> int:
    return int(sample.user.max(initial=-1)) + 1


def _unknown(sample: UserValues) -> ArmFigure:
    means = mean_of_users(sample)
    estimate = float(means.mean()) if len(means) else None
    return ArmFigure(users=len(means), estimate=estimate, lower=-math.inf, upper=math.inf)
