"""Whether an answer is compared: rates, caps, kinds, and that it can be replayed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from observability.shadow_names import ShadowShed
from shadow.policy import (
    PlannedComparison,
    ShadowFlags,
    ShadowLoad,
    ShadowRules,
    plan_comparison,
)
from shadow.records import ComparisonKind

FLAGS = ShadowFlags(control_id="aks", shadow_id="bolt", rate=1.0)
RULES = ShadowRules(
    baseline_id="uniform", aa_share=0.0, max_running_answers=8, tenant_per_minute=100
)
IDLE = ShadowLoad(running_answers=1, tenant_compared=0)
IDS = [f"answer-{number}" for number in range(4000)]

rates = st.floats(0, 1)
answer_ids = st.uuids().map(lambda one: one.hex)


def planned(
    answer_id: str = "one", flags: ShadowFlags = FLAGS, rules: ShadowRules = RULES
) -> PlannedComparison:
    plan = plan_comparison(answer_id, flags, rules, IDLE)
    assert isinstance(plan, PlannedComparison)
    return plan


def compared(flags: ShadowFlags) -> set[str]:
    return {one for one in IDS if plan_comparison(one, flags, RULES, IDLE) is not None}


@given(answer_ids, rates, rates, rates)
def test_the_same_answer_always_gets_the_same_plan(
    answer_id: str, rate: float, aa_share: float, answer_rate: float
) -> None:
    flags = replace(FLAGS, rate=rate, answer_rate=answer_rate)
    rules = replace(RULES, aa_share=aa_share)
    first = plan_comparison(answer_id, flags, rules, IDLE)
    assert first == plan_comparison(answer_id, flags, rules, IDLE)


def test_the_rate_is_the_share_of_answers_and_raising_it_only_adds_some() -> None:
    few, many = compared(replace(FLAGS, rate=0.1)), compared(replace(FLAGS, rate=0.5))
    assert abs(len(few) / len(IDS) - 0.1) < 0.02
    assert abs(len(many) / len(IDS) - 0.5) < 0.03
    assert few < many
    assert compared(replace(FLAGS, rate=0.0)) == set()
    assert compared(FLAGS) == set(IDS)


def test_without_a_shadow_sampler_nothing_is_planned_and_nothing_shed() -> None:
    busy = ShadowLoad(running_answers=99, tenant_compared=10_000)
    assert plan_comparison("one", replace(FLAGS, shadow_id=None), RULES, busy) is None


def test_under_load_nothing_is_compared() -> None:
    busy = replace(IDLE, running_answers=9)
    assert plan_comparison("one", FLAGS, RULES, busy) is ShadowShed.LOAD


def test_a_tenant_gets_no_more_than_its_share() -> None:
    used_up = replace(IDLE, tenant_compared=100)
    assert plan_comparison("one", FLAGS, RULES, used_up) is ShadowShed.TENANT_CAP


def test_where_the_shadow_sampler_served_the_baseline_runs_in_shadow() -> None:
    plan = planned(flags=replace(FLAGS, control_id="bolt"))
    assert (plan.kind, plan.shadow_id) == (ComparisonKind.SAMPLER, "uniform")


def test_the_baseline_beside_itself_is_an_a_a_comparison() -> None:
    plan = planned(flags=replace(FLAGS, control_id="uniform", shadow_id="uniform"))
    assert (plan.kind, plan.shadow_id) == (ComparisonKind.A_A, "uniform")


def test_the_a_a_share_of_the_compared_runs_the_control_against_itself() -> None:
    rules = replace(RULES, aa_share=0.2)
    plans = [planned(one, rules=rules) for one in IDS]
    against_itself = [plan for plan in plans if plan.kind is ComparisonKind.A_A]
    assert {plan.shadow_id for plan in against_itself} == {"aks"}
    assert abs(len(against_itself) / len(IDS) - 0.2) < 0.03


def test_each_side_runs_first_half_of_the_time() -> None:
    first = [planned(one).is_control_first for one in IDS]
    assert abs(sum(first) / len(IDS) - 0.5) < 0.03


def test_the_answer_rate_is_a_share_of_the_compared_whatever_their_rate() -> None:
    flags = replace(FLAGS, rate=0.5, answer_rate=0.5)
    plans = [plan_comparison(one, flags, RULES, IDLE) for one in IDS]
    answered = [plan.is_answered for plan in plans if isinstance(plan, PlannedComparison)]
    assert abs(sum(answered) / len(answered) - 0.5) < 0.04
