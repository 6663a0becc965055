"""An outage of what both arms need pauses; a fault of the candidate rolls back."""

from __future__ import annotations

from benchmarks.guard_traffic import make_rollout
from flags.guard_report import GuardReport
from flags.guards import evaluate_guards
from flags.rollout_plan import Figure, Verdict
from tests.flags.exposures import Arm, outcomes_of_arms

AWAY = {Figure.DEPENDENCY_FAILURE: 0.3, Figure.FALLBACK: 0.3, Figure.SAMPLER_FAILURE: 0.0}
FINE = {Figure.DEPENDENCY_FAILURE: 0.0, Figure.FALLBACK: 0.0, Figure.SAMPLER_FAILURE: 0.0}
OWN_FAULT = {Figure.DEPENDENCY_FAILURE: 0.0, Figure.FALLBACK: 0.3, Figure.SAMPLER_FAILURE: 0.3}
DURING_S, LONG_AFTER_S = 1000.0, 5000.0


def look(
    candidate: dict[Figure, float], control: dict[Figure, float], now_s: float, *guards: str
) -> GuardReport:
    rollout = make_rollout(50, guards, min_users=100, min_answers=100)
    return evaluate_guards(rollout, outcomes_of_arms(Arm(400, candidate), Arm(400, control)), now_s)


def test_an_outage_in_both_arms_pauses_without_any_guard() -> None:
    report = look(AWAY, AWAY, DURING_S)
    assert (report.verdict, report.must_pause) == (Verdict.INCONCLUSIVE, True)
    assert report.reason == (
        "Pause: a dependency fails in both arms (30% of the candidate's answers and 30% of the"
        " other arm's in the last 600 s). Mend it, then resume"
    )


def test_an_outage_pauses_where_a_guard_of_fallbacks_is_broken() -> None:
    report = look(AWAY, AWAY, DURING_S, "fallback<=1%", "dependency_failure<=1%")
    assert (report.verdict, report.must_pause) == (Verdict.INCONCLUSIVE, True)


def test_an_outage_that_is_over_holds_and_does_not_roll_back() -> None:
    report = look(AWAY, AWAY, LONG_AFTER_S, "fallback<=1%")
    assert (report.verdict, report.must_pause) == (Verdict.INCONCLUSIVE, False)
    assert "but a dependency failed in both arms" in report.reason


def test_a_dependency_that_only_the_candidate_lacks_rolls_back() -> None:
    for now_s in (DURING_S, LONG_AFTER_S):
        assert look(AWAY, FINE, now_s, "fallback<=1%").verdict is Verdict.FAIL


def test_the_candidates_own_failures_roll_back_during_an_outage_too() -> None:
    both = {figure: max(AWAY[figure], OWN_FAULT[figure]) for figure in AWAY}
    assert look(both, AWAY, DURING_S, "sampler_failure<=1%").verdict is Verdict.FAIL
    assert look(both, AWAY, DURING_S, "fallback<=1%").verdict is Verdict.FAIL


def test_without_dependency_failures_nothing_pauses() -> None:
    report = look(FINE, FINE, DURING_S, "fallback<=1%")
    assert (report.verdict, report.must_pause) == (Verdict.PASS, False)
