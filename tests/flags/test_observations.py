"""One fixed observation for each user."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.guard_traffic import make_rollout
from flags.observations import SETTLE_S, Observations, Span, exposure_values, observe
from flags.rollout_plan import Figure, RolloutPlan
from tests.flags.exposures import Exposure, outcomes_of

ALL = Span(0.0, math.inf)
FAILED = {Figure.SAMPLER_FAILURE: 1.0}
FINE = {Figure.SAMPLER_FAILURE: 0.0}


@pytest.fixture
def plan() -> RolloutPlan:
    """Three answers or a hundred seconds close a user."""
    return replace(make_rollout(50).plan, user_answers=3, user_window_s=100.0)


def see(plan: RolloutPlan, exposures: list[Exposure], now_s: float) -> Observations:
    return observe(plan, outcomes_of(exposures), ALL, now_s)


def test_a_user_is_closed_by_the_last_answer_that_counts(plan: RolloutPlan) -> None:
    exposures = [Exposure("ann", True, at) for at in (10.0, 20.0, 30.0, 40.0)]
    assert see(plan, exposures, 30.0 + SETTLE_S - 0.1).candidate.num_users == 0
    arm = see(plan, exposures, 30.0 + SETTLE_S).candidate
    assert (arm.num_users, arm.num_answers, list(arm.closed_s)) == (1, 3, [30.0])


def test_a_user_is_closed_by_time_after_the_first_answer(plan: RolloutPlan) -> None:
    exposures = [Exposure("ann", True, at) for at in (10.0, 110.0, 110.1)]
    assert see(plan, exposures, 111.0).candidate.num_users == 0
    arm = see(plan, exposures, 200.0).candidate
    assert (arm.num_users, arm.num_answers, list(arm.closed_s)) == (1, 2, [110.0])


def test_users_stand_in_the_order_of_closing(plan: RolloutPlan) -> None:
    slow = [Exposure("ann", True, 0.0, FAILED)]
    fast = [Exposure("bob", True, at, FINE) for at in (1.0, 2.0, 3.0)]
    outcomes = outcomes_of([*slow, *fast])
    arm = observe(plan, outcomes, ALL, 500.0).candidate
    values = exposure_values(outcomes, arm, Figure.SAMPLER_FAILURE, 100.0, 500.0)
    assert list(zip(values.user, values.values, strict=True)) == [(0, 0), (0, 0), (0, 0), (1, 1)]


def test_answers_under_way_when_the_span_began_do_not_count(plan: RolloutPlan) -> None:
    exposures = [
        Exposure("ann", False, 60.0, {Figure.TOTAL_S: 20.0}),
        Exposure("ann", True, 70.0, {Figure.TOTAL_S: 5.0}),
    ]
    seen = observe(plan, outcomes_of(exposures), Span(50.0, math.inf), 500.0)
    assert (seen.candidate.num_users, seen.control.num_users) == (1, 0)
    assert seen.users_in_both_arms == 0


def test_a_user_of_both_arms_stays_with_the_first_and_is_counted(plan: RolloutPlan) -> None:
    seen = see(plan, [Exposure("ann", False, 1.0), Exposure("ann", True, 2.0)], 500.0)
    assert (seen.candidate.num_users, seen.control.num_users) == (0, 1)
    assert seen.control.num_answers == 1
    assert seen.users_in_both_arms == 1


def test_late_figures_wait_one_more_window_and_what_comes_after_it_is_left(
    plan: RolloutPlan,
) -> None:
    good = {Figure.FEEDBACK: 1.0}
    outcomes = outcomes_of(
        [
            Exposure("ann", True, 0.0, good, {Figure.FEEDBACK: 199.0}),
            Exposure("bob", True, 0.0, good, {Figure.FEEDBACK: 201.0}),
        ]
    )
    for now_s, users in ((190.0, 0), (300.0, 1)):
        arm = observe(plan, outcomes, ALL, now_s).candidate
        values = exposure_values(outcomes, arm, Figure.FEEDBACK, plan.user_window_s, now_s)
        assert (arm.num_users, len(values.values)) == (2, users)


def test_nobody_is_observed_where_nobody_came(plan: RolloutPlan) -> None:
    seen = see(plan, [], 1.0)
    assert (seen.candidate.num_users, seen.control.num_answers) == (0, 0)


exposure_lists = st.lists(
    st.builds(
        Exposure,
        user=st.sampled_from("abcdefgh"),
        is_candidate=st.booleans(),
        ended_s=st.integers(0, 400).map(float),
        figures=st.sampled_from([FINE, FAILED]),
    ),
    max_size=60,
)


@settings(max_examples=60)
@given(exposure_lists, st.integers(0, 500), st.integers(0, 500))
def test_a_closed_observation_never_changes(
    exposures: list[Exposure], one_s: int, other_s: int
) -> None:
    plan = replace(make_rollout(50).plan, user_answers=3, user_window_s=100.0)
    earlier_s, later_s = sorted((float(one_s), float(other_s)))
    until_then = [one for one in exposures if one.ended_s <= earlier_s]
    for arm in ("candidate", "control"):
        before = getattr(observe(plan, outcomes_of(until_then), ALL, earlier_s), arm)
        after = getattr(observe(plan, outcomes_of(exposures), ALL, later_s), arm)
        first = after.user < before.num_users
        assert np.array_equal(after.closed_s[: before.num_users], before.closed_s)
        assert np.array_equal(after.user[first], before.user)
        assert np.array_equal(after.position[first], before.position)


def test_users_who_are_open_are_known_with_the_moment_of_their_closing(plan: RolloutPlan) -> None:
    exposures = [Exposure("ann", True, 10.0), Exposure("bob", True, 30.0)]
    exposures += [Exposure("cat", True, at) for at in (31.0, 32.0, 33.0)]
    arm = see(plan, exposures, 33.0).candidate
    assert list(arm.open_until_s) == [33.0 + SETTLE_S, 110.0 + SETTLE_S, 130.0 + SETTLE_S]
    assert list(see(plan, exposures, 32.0).candidate.open_until_s)[-1] == 131.0 + SETTLE_S
    assert list(see(plan, exposures, 29.0).candidate.open_until_s) == [110.0 + SETTLE_S]
    assert len(see(plan, exposures, 132.0).candidate.open_until_s) == 0
