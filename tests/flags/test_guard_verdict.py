"""One guard's verdict from its figures."""

from __future__ import annotations

import math

import pytest

from flags.guard_report import ArmFigure
from flags.guard_text import parse_guard
from flags.guard_verdict import Judgement, judge_figures, promise_text
from flags.rollout_plan import Verdict


def arm(estimate: float, lower: float, upper: float, users: int = 100) -> ArmFigure:
    return ArmFigure(users=users, estimate=estimate, lower=lower, upper=upper)


def judge(guard: str, candidate: ArmFigure, control: ArmFigure) -> Judgement:
    return judge_figures(parse_guard(guard), candidate, control, least_users=100)


LIKE = arm(1.0, 0.9, 1.1)


@pytest.mark.parametrize(
    ("guard", "candidate", "verdict", "is_proven"),
    [
        ("total_s<=1.2x", arm(1.0, 0.9, 1.07), Verdict.PASS, True),
        ("total_s<=1.2x", arm(1.1, 0.9, 1.3), Verdict.PASS, False),
        ("total_s<=1.2x", arm(1.3, 0.9, 1.5), Verdict.INCONCLUSIVE, False),
        ("total_s<=1.2x", arm(1.4, 1.33, 1.5), Verdict.FAIL, True),
        ("total_s<=1.2x", arm(1.4, 1.33, 1.5, users=9), Verdict.FAIL, True),
        ("total_s<=1.2x", arm(1.0, 0.9, 1.07, users=99), Verdict.INCONCLUSIVE, False),
        ("total_s<=+0.2s", arm(1.4, 1.31, 1.5), Verdict.FAIL, True),
        ("total_s<=2s", arm(1.4, 1.31, 1.5), Verdict.PASS, True),
        ("feedback>=-10%", arm(0.7, 0.6, 0.79), Verdict.FAIL, True),
        ("feedback>=-10%", arm(1.0, 1.0, 1.0), Verdict.PASS, True),
        ("feedback>=-10%", arm(0.95, 0.8, 1.0), Verdict.PASS, False),
        ("feedback>=-10%", arm(0.85, 0.8, 0.9), Verdict.INCONCLUSIVE, False),
        ("feedback>=0.9x", arm(0.7, 0.6, 0.8), Verdict.FAIL, True),
    ],
)
def test_bounds_decide_and_else_the_estimate_at_the_minimum(
    guard: str, candidate: ArmFigure, verdict: Verdict, is_proven: bool
) -> None:
    judgement = judge(guard, candidate, LIKE)
    assert (judgement.verdict, judgement.is_proven) == (verdict, is_proven)


def test_nothing_known_is_not_enough() -> None:
    unknown = ArmFigure(users=0, estimate=None, lower=-math.inf, upper=math.inf)
    for guard in ("total_s<=1.2x", "feedback>=-10%", "sampler_failure<=1%"):
        assert judge(guard, unknown, unknown).verdict is Verdict.INCONCLUSIVE
        assert "0 of 100 users in the candidate arm" in judge(guard, unknown, unknown).reason


@pytest.mark.parametrize(
    ("guard", "candidate", "reason"),
    [
        (
            "total_s<=1.2x",
            arm(1.4, 1.33, 1.5),
            "Broken: 1.4 s (at least 1.33 s) for 100 users against 1 s (at most 1.1 s) for"
            " 100 users; promised is at most 1.2x the other arm's",
        ),
        (
            "feedback>=-10%",
            arm(0.7, 0.6, 0.79),
            "Broken: 70% (at most 79%) for 100 users against 100% (at least 90%) for"
            " 100 users; promised is at least the other arm's -10%",
        ),
        (
            "feedback>=50%",
            arm(0.7, 0.6, 0.79),
            "Kept: 70% (at least 60%) for 100 users; promised is at least 50%",
        ),
        (
            "offline_score>=1x",
            arm(0.55, 0.55, 0.55, users=1),
            "Broken: a recorded score of 0.55 against 1; promised is at least 1x the other arm's",
        ),
        (
            "offline_score>=0.5",
            arm(0.55, 0.55, 0.55, users=1),
            "Kept: a recorded score of 0.55; promised is at least 0.5",
        ),
    ],
)
def test_a_reason_tells_the_bounds_that_were_compared(
    guard: str, candidate: ArmFigure, reason: str
) -> None:
    is_score = guard.startswith("offline_score")
    assert judge(guard, candidate, arm(1.0, 1.0, 1.0) if is_score else LIKE).reason == reason


@pytest.mark.parametrize(
    ("guard", "promise"),
    [
        ("sampler_failure<=1%", "at most 1%"),
        ("answer_error<=+0.5%", "at most the other arm's +0.5%"),
        ("feedback>=0.95x", "at least 0.95x the other arm's"),
    ],
)
def test_a_promise_reads_as_a_sentence(guard: str, promise: str) -> None:
    assert promise_text(parse_guard(guard)) == promise
