"""A guard's figure in both arms."""

from __future__ import annotations

import math

import pytest

from benchmarks.guard_traffic import make_rollout
from flags.guard_figures import BURN_IN_USERS, CAP_FACTOR, measure
from flags.guard_look import look_at_stage
from flags.guard_report import ArmFigure
from flags.guard_text import parse_guard
from flags.rollout_plan import Figure
from tests.flags.exposures import Arm, Exposure, outcomes_of, outcomes_of_arms

TOTAL = Figure.TOTAL_S


def figures(guard: str, candidate: Arm, control: Arm) -> tuple[ArmFigure, ArmFigure]:
    rollout = make_rollout(50, (guard,), min_users=500)
    look = look_at_stage(rollout, outcomes_of_arms(candidate, control), 5000.0)
    return measure(parse_guard(guard), look)


def test_a_mean_is_of_users_and_not_of_answers() -> None:
    exposures = [
        Exposure("ann", True, 1.0, {Figure.FALLBACK: 0.0}),
        *(Exposure("bob", True, at, {Figure.FALLBACK: 1.0}) for at in (1.0, 2.0, 3.0)),
    ]
    look = look_at_stage(make_rollout(50), outcomes_of(exposures), 5000.0)
    candidate, control = measure(parse_guard("fallback<=1%"), look)
    assert (candidate.users, candidate.estimate) == (2, 0.5)
    assert (control.users, control.estimate) == (0, None)


def test_values_are_clipped_at_ten_times_the_limit() -> None:
    candidate, _ = figures("total_s<=2s", Arm(300, values={TOTAL: 900.0}), Arm(300))
    assert candidate.estimate == CAP_FACTOR * 2.0
    assert 2.0 < candidate.lower < candidate.estimate


@pytest.mark.parametrize(("guard", "cap"), [("total_s<=1.5x", 30.0), ("total_s<=+1s", 30.0)])
def test_values_are_clipped_at_ten_times_what_the_other_arm_allows(guard: str, cap: float) -> None:
    candidate, control = figures(
        guard, Arm(300, values={TOTAL: 900.0}), Arm(300, values={TOTAL: 2.0})
    )
    assert candidate.estimate == pytest.approx(cap)
    assert control.estimate == pytest.approx(2.0)


def test_without_enough_of_the_other_arm_nothing_is_known_of_a_ratio() -> None:
    usual = {TOTAL: 2.0}
    candidate, control = figures(
        "total_s<=1.5x", Arm(900, values=usual), Arm(BURN_IN_USERS - 1, values=usual)
    )
    assert (candidate.lower, candidate.upper) == (-math.inf, math.inf)
    assert control.estimate == 2.0


def test_a_figure_that_the_other_arm_has_none_of_is_compared_with_nothing() -> None:
    calls = Figure.MODEL_CALLS
    candidate, control = figures(
        "model_calls<=1.5x", Arm(900, values={calls: 3.0}), Arm(900, values={calls: 0.0})
    )
    assert candidate.lower > 1.5 * control.upper


def test_a_quantile_has_bounds_in_its_own_unit() -> None:
    shares = {TOTAL: 0.10}  # every tenth answer takes a second, the others none
    candidate, _ = figures("total_s.p95<=1.2x", Arm(2000, shares), Arm(300, shares))
    assert (candidate.lower, candidate.estimate, candidate.upper) == (1.0, 1.0, 1.0)


def test_relevance_may_be_negative() -> None:
    relevance = {Figure.SHADOW_RELEVANCE: -0.25}
    candidate, _ = figures("shadow_relevance>=-0.1", Arm(900, values=relevance), Arm(900))
    assert candidate.estimate == pytest.approx(-0.25)
    assert candidate.lower < -0.25 < candidate.upper < 0.0
