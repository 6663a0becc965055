"""What one look at the guards sees, and how the error that the plan allows is shared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from flags.figures import FIGURES
from flags.observations import ArmObservations, Observations, Span, exposure_values, observe
from flags.outcomes import Outcomes
from flags.rollout_plan import Figure, Guard, Reference, Rollout
from flags.statistics import UserValues

LEAST_LATE_USERS: Final = 20
_LEAST_PERIOD_WINDOWS: Final = 4


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the running stage, or at one period of it."""

    rollout: Rollout
    outcomes: Outcomes
    observations: Observations
    now_s: float
    error_share: float
    """Of the stage's allowed error."""

    @property
    def has_other_arm(self) -> bool:
        return self.rollout.weight < 100

    def values(self, arm: ArmObservations, figure: Figure) -> UserValues:
        window_s = self.rollout.plan.user_window_s
        return exposure_values(self.outcomes, arm, figure, window_s, self.now_s)


def look_at_stage(rollout: Rollout, outcomes: Outcomes, now_s: float) -> Look:
    """The whole running stage; half of the allowed error is its."""
    span = Span(stage_began_s(rollout), math.inf)
    return Look(rollout, outcomes, observe(rollout.plan, outcomes, span, now_s), now_s, 0.5)


def look_at_periods(rollout: Rollout, outcomes: Outcomes, now_s: float) -> list[Look]:
    """The period that runs and the one before, where they are not the stage's first.

    Periods are as long as the plan's dwell, and four user windows at least. A candidate that was
    good for long must earn its faults back before the whole stage shows them; a period starts
    without a past. The second half of the allowed error is shared among all periods to come.
    """
    plan = rollout.plan
    period_s = max(plan.dwell_s, _LEAST_PERIOD_WINDOWS * plan.user_window_s)
    began_s = stage_began_s(rollout)
    if period_s <= 0.0 or now_s < began_s:
        return []
    running = int((now_s - began_s) // period_s)
    looks = []
    for period in range(max(1, running - 1), running + 1):
        span = Span(began_s + period * period_s, began_s + (period + 1) * period_s)
        observations = observe(plan, outcomes, span, now_s)
        looks.append(Look(rollout, outcomes, observations, now_s, 0.5 * _series_share(period)))
    return looks


def stage_began_s(rollout: Rollout) -> float:
    """Since when exposures are analysed together."""
    return max(rollout.stage_started_s, rollout.epoch_started_s)


def can_roll_back(guard: Guard) -> bool:
    """Whether this guard's fail is enough: relevance is no accuracy and never decides alone."""
    return not guard.is_dry_run and guard.figure is not Figure.SHADOW_RELEVANCE


def error_rate(guard: Guard, look: Look) -> float:
    """The chance that one bound of one arm of `guard` is ever wrong within what `look` is at.

    The plan's rate is shared among epochs, stages, the guards that may roll back and a guard's
    arms, and within a stage between the whole and its periods.
    """
    plan = look.rollout.plan
    num_guards = sum(
        can_roll_back(other) and other.figure is not Figure.OFFLINE_SCORE for other in plan.guards
    )
    num_arms = 1 if guard.reference is Reference.ABSOLUTE else 2
    share = _series_share(look.rollout.epoch) * look.error_share
    return plan.false_alarm_rate * share / (len(plan.stages) * max(1, num_guards) * num_arms)


def _series_share(number: int) -> float:
    """Of a whole that is shared among the numbers 1, 2, ... without end."""
    return 6.0 / (math.pi * number) ** 2


def least_users(guard: Guard, rollout: Rollout) -> int:
    """Users in an arm for whom the figure must be known before the guard may pass.

    All of the plan's minimum; a tenth, but no fewer than 20, where only a part has the figure.
    """
    least = max(1, rollout.plan.min_users)
    if FIGURES[guard.figure].is_late:
        return min(least, max(LEAST_LATE_USERS, math.ceil(least / 10)))
    return least
