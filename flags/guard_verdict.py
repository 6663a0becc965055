"""One guard's verdict from its figures, and the sentence that tells an operator why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from flags.figures import figure_text
from flags.guard_report import ArmFigure
from flags.guard_text import limit_text
from flags.rollout_plan import Comparison, Figure, Guard, Reference, Verdict

NO_OTHER_ARM: Final = "No other arm runs at 100%: this guard decides nothing in this stage"


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    is_proven: bool
    reason: str


def judge_figures(
    guard: Guard, candidate: ArmFigure, control: ArmFigure, least_users: int
) -> Judgement:
    """FAIL where the bounds exclude that the promise is kept. PASS where they exclude that it is
    broken, or where `least_users` in each arm that it is about keep it on average and no harm is
    shown. INCONCLUSIVE otherwise."""
    if _is_broken(guard, candidate, control):
        return Judgement(Verdict.FAIL, True, f"Broken: {_shown(guard, candidate, control)}")
    if missing := _missing(guard, candidate, control, least_users):
        return Judgement(Verdict.INCONCLUSIVE, False, f"Not enough yet: {missing}")
    if _is_kept(guard, candidate, control):
        return Judgement(Verdict.PASS, True, f"Kept: {_shown(guard, candidate, control)}")
    means = _means(guard, candidate, control)
    if _keeps_on_average(guard, candidate, control):
        return Judgement(Verdict.PASS, False, f"Kept so far: {means}")
    return Judgement(
        Verdict.INCONCLUSIVE, False, f"Undecided: {means}, which chance still explains"
    )


def promise_text(guard: Guard) -> str:
    """`at most 1%`, `at most 1.2x the other arm's`, `at least the other arm's -2%`."""
    how = "at most" if guard.comparison is Comparison.AT_MOST else "at least"
    limit = limit_text(guard)
    if guard.reference is Reference.ABSOLUTE:
        return f"{how} {limit}"
    if guard.reference is Reference.RATIO:
        return f"{how} {limit} the other arm's"
    return f"{how} the other arm's {limit}"


def _allowed(guard: Guard, other: float) -> float:
    """What the promise allows the candidate when the other arm's figure is `other`."""
    if guard.reference is Reference.ABSOLUTE:
        return guard.limit
    return other * guard.limit if guard.reference is Reference.RATIO else other + guard.limit


def _is_broken(guard: Guard, candidate: ArmFigure, control: ArmFigure) -> bool:
    if guard.comparison is Comparison.AT_MOST:
        return candidate.lower > _allowed(guard, control.upper)
    return candidate.upper < _allowed(guard, control.lower)


def _is_kept(guard: Guard, candidate: ArmFigure, control: ArmFigure) -> bool:
    if guard.comparison is Comparison.AT_MOST:
        return candidate.upper <= _allowed(guard, control.lower)
    return candidate.lower >= _allowed(guard, control.upper)


def _keeps_on_average(guard: Guard, candidate: ArmFigure, control: ArmFigure) -> bool:
    allowed = _allowed(guard, _number(control.estimate))
    if guard.comparison is Comparison.AT_MOST:
        return _number(candidate.estimate) <= allowed
    return _number(candidate.estimate) >= allowed


def _number(estimate: float | None) -> float:
    return math.nan if estimate is None else estimate


def _missing(guard: Guard, candidate: ArmFigure, control: ArmFigure, least_users: int) -> str:
    if guard.figure is Figure.OFFLINE_SCORE:
        least_users = 1
    arms = {"the candidate arm": candidate}
    if guard.reference is not Reference.ABSOLUTE:
        arms["the other arm"] = control
    missing = [
        f"{guard.figure} of {figure.users:,} of {least_users:,} users in {arm}"
        for arm, figure in arms.items()
        if figure.users < least_users
    ]
    if missing and guard.figure is Figure.OFFLINE_SCORE:
        return f"no offline score is recorded for {' and '.join(arms)}"
    return ", ".join(missing)


def _shown(guard: Guard, candidate: ArmFigure, control: ArmFigure) -> str:
    """The figures with the bounds that were compared."""
    is_high = candidate.lower > _allowed(guard, control.upper) or (
        guard.comparison is Comparison.AT_LEAST and _is_kept(guard, candidate, control)
    )
    if guard.figure is Figure.OFFLINE_SCORE:
        return f"{_recorded(guard, candidate, control)}; promised is {promise_text(guard)}"
    text = _with_bound(guard.figure, candidate, is_lower=is_high)
    if guard.reference is not Reference.ABSOLUTE:
        text += f" against {_with_bound(guard.figure, control, is_lower=not is_high)}"
    return f"{text}; promised is {promise_text(guard)}"


def _recorded(guard: Guard, candidate: ArmFigure, control: ArmFigure) -> str:
    """A score is no mean over users."""
    text = f"a recorded score of {figure_text(guard.figure, _number(candidate.estimate))}"
    if guard.reference is Reference.ABSOLUTE:
        return text
    return f"{text} against {figure_text(guard.figure, _number(control.estimate))}"


def _with_bound(figure: Figure, arm: ArmFigure, *, is_lower: bool) -> str:
    bound = f"at least {figure_text(figure, arm.lower)}"
    if not is_lower:
        bound = f"at most {figure_text(figure, arm.upper)}"
    return f"{figure_text(figure, _number(arm.estimate))} ({bound}) for {arm.users:,} users"


def _means(guard: Guard, candidate: ArmFigure, control: ArmFigure) -> str:
    text = f"{figure_text(guard.figure, _number(candidate.estimate))} for {candidate.users:,} users"
    if guard.reference is not Reference.ABSOLUTE:
        other = figure_text(guard.figure, _number(control.estimate))
        text += f" against {other} for {control.users:,}"
    return f"{text}; promised is {promise_text(guard)}"
