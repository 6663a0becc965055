"""A rollout's guards, judged: what advances, what rolls back, what is held."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.guard_traffic import STAGE_S, ArmTraits, Traffic, make_rollout, simulate
from flags.guard_report import GuardReport
from flags.guards import evaluate_guards
from flags.outcomes import Outcomes
from flags.rollout_plan import Figure, Rollout, Verdict
from tests.flags.exposures import Arm, outcomes_of, outcomes_of_arms

LATER_S = 5000.0
FAILS, DEPENDS = Figure.SAMPLER_FAILURE, Figure.DEPENDENCY_FAILURE


def rollout_with(*guards: str, weight: int = 50, **settings: float) -> Rollout:
    return make_rollout(weight, guards, min_users=200, min_answers=200, **settings)


def report_on(rollout: Rollout, candidate: Arm, control: Arm) -> GuardReport:
    return evaluate_guards(rollout, outcomes_of_arms(candidate, control), LATER_S)


def until(outcomes: Outcomes, now_s: float) -> Outcomes:
    ended = int(np.searchsorted(outcomes.ended_s, now_s, side="right"))
    figures = {figure: column[:ended] for figure, column in outcomes.figures.items()}
    return Outcomes(
        outcomes.user[:ended], outcomes.is_candidate[:ended], outcomes.ended_s[:ended], figures
    )


def test_without_exposures_nothing_advances() -> None:
    report = evaluate_guards(rollout_with("sampler_failure<=1%"), outcomes_of([]), LATER_S)
    assert (report.verdict, report.must_pause) == (Verdict.INCONCLUSIVE, False)
    assert report.reason == (
        "Hold: 0 of 200 users and 0 of 200 answers in the candidate arm."
        " 0 of 200 users and 0 of 200 answers in the other arm."
    )


def test_a_plan_without_a_minimum_does_not_advance_without_data_either() -> None:
    guards = ("sampler_failure<=1%", "total_s<=1.2x", "feedback>=-5%")
    rollout = make_rollout(50, guards, min_users=0, min_answers=0)
    report = evaluate_guards(rollout, outcomes_of([]), LATER_S)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "sampler_failure of 0 of 1 users in the candidate arm" in report.reason


def test_a_good_candidate_passes_as_soon_as_the_minimum_is_reached() -> None:
    rollout = rollout_with("sampler_failure<=1%", "answer_error<=+0.5%", "total_s.p95<=1.2x")
    good = {"shares": {FAILS: 0.005, Figure.ANSWER_ERROR: 0.0}, "values": {Figure.TOTAL_S: 1.0}}
    assert report_on(rollout, Arm(199, **good), Arm(230, **good)).verdict is Verdict.INCONCLUSIVE
    report = report_on(rollout, Arm(200, **good), Arm(230, **good))
    assert (report.verdict, report.must_pause) == (Verdict.PASS, False)
    assert not report.guards[0].is_proven
    assert report.guards[0].reason == "Kept so far: 0.5% for 200 users; promised is at most 1%"


def test_a_promise_that_the_bounds_exclude_rolls_back_long_before_the_minimum() -> None:
    rollout = rollout_with("sampler_failure<=1%")
    report = report_on(rollout, Arm(60, {FAILS: 0.3}), Arm(60))
    assert (report.verdict, report.must_pause) == (Verdict.FAIL, False)
    assert report.reason.startswith("Roll back: sampler_failure<=1%: Broken: 30% (at least ")
    assert report.guards[0].is_proven


def test_worse_than_promised_but_not_shown_is_held() -> None:
    report = report_on(rollout_with("sampler_failure<=1%"), Arm(300, {FAILS: 0.014}), Arm(300))
    assert (report.verdict, report.must_pause) == (Verdict.INCONCLUSIVE, False)
    assert "Undecided: 1.33% for 300 users" in report.reason


def test_a_promise_is_proven_by_enough_users() -> None:
    report = report_on(rollout_with("sampler_failure<=1%"), Arm(4000, {FAILS: 0.001}), Arm(4000))
    assert report.guards[0].is_proven
    assert report.reason == (
        "Pass: the guard is kept for 4,000 users of the candidate at 50%, 1 of them proven"
    )


def test_a_dry_run_is_reported_and_never_decides() -> None:
    rollout = rollout_with("dry:sampler_failure<=1%")
    report = report_on(rollout, Arm(300, {FAILS: 0.5}), Arm(300))
    assert report.verdict is Verdict.PASS
    assert report.guards[0].verdict is Verdict.FAIL
    assert (report.guards[0].decides, report.guards[0].is_required) == (False, False)


def test_shadow_relevance_alone_holds_and_does_not_roll_back() -> None:
    rollout = rollout_with("shadow_relevance>=-0.02", "sampler_failure<=1%")
    worse = Arm(900, {FAILS: 0.0}, {Figure.SHADOW_RELEVANCE: -0.5})
    usual = Arm(900, {FAILS: 0.0}, {Figure.SHADOW_RELEVANCE: 0.5})
    report = report_on(rollout, worse, usual)
    assert report.guards[0].verdict is Verdict.FAIL
    assert (report.verdict, report.must_pause) == (Verdict.INCONCLUSIVE, False)
    assert report.reason.startswith("Hold: shadow_relevance>=-0.02: Broken")


def test_a_guard_against_the_other_arm_is_not_asked_where_there_is_none() -> None:
    rollout = make_rollout(50, ("total_s<=1.2x", "sampler_failure<=1%"), min_users=200)
    whole = replace(rollout, plan=replace(rollout.plan, stages=(50, 100)), stage=1)
    report = report_on(whole, Arm(600, {FAILS: 0.0}, {Figure.TOTAL_S: 1.0}), Arm(1))
    assert report.verdict is Verdict.PASS
    assert report.guards[0].reason == (
        "No other arm runs at 100%: this guard decides nothing in this stage"
    )


def test_users_dealt_unlike_the_weight_pause_the_rollout() -> None:
    report = report_on(rollout_with("total_s<=1.2x"), Arm(300), Arm(700))
    assert (report.verdict, report.must_pause) == (Verdict.INCONCLUSIVE, True)
    assert report.reason.startswith("Pause: the arms cannot be compared. 30.00% of the users")


def test_a_mismatch_discredits_comparisons_only() -> None:
    slow = Arm(300, {FAILS: 0.0}, {Figure.TOTAL_S: 9.0})
    usual = Arm(700, {FAILS: 0.0}, {Figure.TOTAL_S: 1.0})
    compared = report_on(rollout_with("total_s<=1.2x"), slow, usual)
    assert compared.guards[0].verdict is Verdict.FAIL
    assert (compared.verdict, compared.must_pause) == (Verdict.INCONCLUSIVE, True)
    failing = report_on(rollout_with("sampler_failure<=1%"), Arm(300, {FAILS: 0.5}), usual)
    assert failing.verdict is Verdict.FAIL


def test_an_offline_score_is_compared_without_a_margin() -> None:
    rollout = rollout_with("offline_score>=-0.02")
    control = Arm(300, values={Figure.OFFLINE_SCORE: 0.60})
    for score, verdict in ((0.581, Verdict.PASS), (0.579, Verdict.FAIL)):
        candidate = Arm(300, values={Figure.OFFLINE_SCORE: score})
        assert report_on(rollout, candidate, control).verdict is verdict
    unrecorded = report_on(rollout, Arm(300), control)
    assert unrecorded.verdict is Verdict.INCONCLUSIVE
    assert "no offline score is recorded" in unrecorded.reason


def test_a_candidate_that_turns_bad_is_stopped_by_its_latest_users() -> None:
    """Five thousand good users first: on the whole the promise still seems kept."""
    rollout = rollout_with("sampler_failure<=1%")
    rollout = replace(rollout, plan=replace(rollout.plan, dwell_s=2500.0))
    good = outcomes_of_arms(Arm(5000, {FAILS: 0.0}), Arm(5000, {FAILS: 0.0}))
    bad = outcomes_of_arms(Arm(200, {FAILS: 0.2}), Arm(200, {FAILS: 0.0}), since_s=2600.0)
    outcomes = Outcomes(
        user=np.concatenate([good.user, bad.user + 10_000]),
        is_candidate=np.concatenate([good.is_candidate, bad.is_candidate]),
        ended_s=np.concatenate([good.ended_s, bad.ended_s]),
        figures={FAILS: np.concatenate([good.figures[FAILS], bad.figures[FAILS]])},
    )
    report = evaluate_guards(rollout, outcomes, 4900.0)
    assert report.verdict is Verdict.FAIL
    assert report.guards[0].reason.endswith("by the latest users alone")


def test_a_report_is_json_without_infinities() -> None:
    report = report_on(rollout_with("total_s.p99<=1.2x"), Arm(3), Arm(3))
    text = json.dumps(report.to_document(), allow_nan=False)
    assert json.loads(text)["guards"][0]["candidate"]["upper"] is None


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.floats(0, STAGE_S))
def test_what_ends_later_plays_no_part_in_a_look(seed: int, now_s: float) -> None:
    outcomes = simulate(Traffic(num_users=300, weight=50), np.random.default_rng(seed))
    rollout = make_rollout(50, min_users=20)
    now = evaluate_guards(rollout, until(outcomes, now_s), now_s)
    assert evaluate_guards(rollout, outcomes, now_s) == now


@pytest.mark.parametrize(
    ("harm", "guard"),
    [
        (ArmTraits(failure_share=0.1), "sampler_failure<=1%"),
        (ArmTraits(error_share=0.1), "answer_error<=+0.5%"),
        (ArmTraits(slowness=2.0), "selection_s.p95<=1.2x"),
        (ArmTraits(slowness=2.0), "total_s<=1.2x"),
        (ArmTraits(tokens=3000.0), "vision_tokens<=1.05x"),
    ],
)
def test_every_kind_of_harm_is_found(harm: ArmTraits, guard: str) -> None:
    traffic = Traffic(num_users=4000, weight=25, candidate=harm)
    outcomes = simulate(traffic, np.random.default_rng(2))
    report = evaluate_guards(make_rollout(25), outcomes, STAGE_S)
    assert report.verdict is Verdict.FAIL
    failed = {result.guard for result in report.guards if result.verdict is Verdict.FAIL}
    assert guard in failed
