"""How the error that a plan allows is shared, and into what a stage is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.guard_traffic import make_rollout
from flags.guard_look import error_rate, least_users, look_at_periods, look_at_stage
from flags.guard_text import parse_guard
from flags.rollout_plan import Rollout
from tests.flags.exposures import outcomes_of

NOBODY = outcomes_of([])


def rollout_with(*guards: str) -> Rollout:
    return make_rollout(50, guards, min_users=500, user_window_s=600.0)


def test_all_epochs_stages_periods_guards_and_arms_share_the_stated_rate() -> None:
    guards = ("sampler_failure<=1%", "total_s<=1.2x", "fallback<=+1%")
    rollout = rollout_with(*guards)
    spent = 0.0
    for epoch in range(1, 200):
        later = replace(rollout, epoch=epoch)
        stage = look_at_stage(later, NOBODY, 0.0)
        looks = [stage, *look_at_periods(later, NOBODY, 3600.0)]
        period = replace(looks[1], error_share=0.5)  # all periods that will ever be
        for guard in later.plan.guards:
            arms = 1 if guard.reference == "absolute" else 2
            both = error_rate(guard, stage) + error_rate(guard, period)
            spent += len(later.plan.stages) * arms * both
    assert 0.99 * rollout.plan.false_alarm_rate < spent <= rollout.plan.false_alarm_rate


def test_periods_without_end_share_what_is_left_for_them() -> None:
    rollout = rollout_with()
    shares = {
        now_s: look_at_periods(rollout, NOBODY, now_s)[-1].error_share
        for now_s in (3600.0 * period for period in range(1, 500))
    }
    assert 0.99 * 0.5 < sum(shares.values()) <= 0.5


def test_watching_costs_the_guards_that_decide_nothing() -> None:
    alone = rollout_with("sampler_failure<=1%")
    watched = rollout_with(
        "sampler_failure<=1%", "dry:total_s<=1.2x", "shadow_relevance>=-0.1", "offline_score>=0.5"
    )
    guard = alone.plan.guards[0]
    rates = [error_rate(guard, look_at_stage(one, NOBODY, 0.0)) for one in (alone, watched)]
    assert rates[0] == rates[1]


def test_the_running_period_and_the_one_before_are_looked_at_but_never_the_first() -> None:
    rollout = replace(rollout_with(), stage_started_s=1000.0)
    assert [
        len(look_at_periods(rollout, NOBODY, 1000.0 + 3600.0 * periods))
        for periods in (-1.0, 0.5, 1.0, 1.5, 2.0, 9.0)
    ] == [0, 0, 1, 1, 2, 2]


def test_a_new_epoch_within_a_stage_begins_its_evidence_anew() -> None:
    rollout = replace(rollout_with(), epoch=2, epoch_started_s=5000.0)
    assert look_at_periods(rollout, NOBODY, 5000.0 + 3599.0) == []


@pytest.mark.parametrize(
    ("guard", "min_users", "least"),
    [
        ("total_s<=1.2x", 500, 500),
        ("feedback>=-5%", 500, 50),
        ("answer_agreement>=90%", 100, 20),
        ("shadow_relevance>=-0.1", 10, 10),
    ],
)
def test_figures_of_a_part_of_the_users_need_a_part_of_the_minimum(
    guard: str, min_users: int, least: int
) -> None:
    rollout = make_rollout(50, (), min_users=min_users)
    assert least_users(parse_guard(guard), rollout) == least
