"""What keeps a rollout from going on by itself: a failing guard, the kill switch, the flag file.

Told from what stands at this moment, so that no text outlives what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flags.guard_report import GuardReport
from flags.keys import BASELINE
from flags.rollout_changes import Cause, is_resumable, serving_text
from flags.rollout_flags import FlagsNow, serves_only_arms
from flags.rollout_plan import Rollout, RolloutState, Verdict

_KILL: Final = "`framegate kill-switch on --why …`"
_RESUME: Final = "`framegate rollout resume`"
_ROLLBACK: Final = "`framegate rollout rollback`"


@dataclass(frozen=True, slots=True)
class Hindrance:
    """In words for an operator, with the commands that help."""

    text: str
    is_due: bool = False
    """Whether the next look acts on it."""


def find_hindrance(
    rollout: Rollout, report: GuardReport | None, flags: FlagsNow
) -> Hindrance | None:
    """Of a rollout that is running or paused; None where it runs undisturbed."""
    if report is not None and report.verdict is Verdict.FAIL:
        return _failing(rollout, report, flags)
    if rollout.state is RolloutState.PAUSED:
        return Hindrance(f"{_mended(flags)}Waits for a person: {_way_on(rollout, flags)}")
    if not flags.is_killed and (flags.serving is None or flags.problem is not None):
        return Hindrance(f"Holds while the flag file cannot be used: {_way_on(rollout, flags)}")
    pause = "Pauses at the next look"
    if flags.is_killed:
        return Hindrance(f"{pause}: the kill switch is on.", is_due=True)
    if not flags.is_own:
        return Hindrance(f"{pause}: the flag file was edited by hand.", is_due=True)
    must_pause = report is not None and report.must_pause
    return Hindrance(f"{pause}.", is_due=True) if must_pause else None


def _failing(rollout: Rollout, report: GuardReport, flags: FlagsNow) -> Hindrance:
    names = ", ".join(f"`{guard}`" for guard in report.failing)
    fails = f"{names} {'fail' if report.failing[1:] else 'fails'}" if names else "a guard fails"
    candidate, serving = rollout.plan.candidate, flags.serving
    if flags.is_killed:
        way = "framegate kill-switch off --why …"
        return Hindrance(
            f"Waits while the kill switch is on: {fails}, and everyone gets `{BASELINE}`. If the "
            f"flag file still deals `{candidate}` after `{way}`, it is rolled back by itself; "
            f"{_way_on(rollout, flags)}"
        )
    nobody = f"Nobody will roll back, although {fails}:"
    if serving is None:
        return Hindrance(
            f"{nobody} the flag file cannot be used. {_KILL} takes `{candidate}` from everyone "
            "at once. Mend the file, and it is rolled back by itself."
        )
    if candidate not in serving.samplers:
        return Hindrance(
            f"Waits for a person: {fails}, but nobody gets `{candidate}` by the flag file. "
            f"{_ROLLBACK} ends the rollout and leaves the file as it is."
        )
    if not serves_only_arms(rollout, serving):
        return Hindrance(
            f"{nobody} the flag file serves something that is not the rollout's. {_ROLLBACK} "
            f"takes `{candidate}` out of it."
        )
    return Hindrance(f"Rolls back at the next look: {fails}.", is_due=True)


def _mended(flags: FlagsNow) -> str:
    """Where the reason for the pause is gone."""
    if flags.cause is Cause.KILL_SWITCH and not flags.is_killed:
        return "The kill switch is off again. "
    is_good = flags.is_own and flags.problem is None
    if flags.cause is Cause.FLAG_EDIT and is_good and not flags.is_killed:
        return "The flag file is as the rollout left it again. "
    return ""


def _way_on(rollout: Rollout, flags: FlagsNow) -> str:
    serving, candidate = flags.serving, rollout.plan.candidate
    if serving is None:
        return (
            f"mend the flag file, then {_RESUME} or {_ROLLBACK}. Until then both are refused, and "
            f"{_KILL} is the way back."
        )
    if flags.problem is not None:
        return f"mend it, or {_ROLLBACK} takes `{candidate}` out of it."
    if flags.is_killed:
        return f"`framegate kill-switch off --why …` and then {_RESUME}, or {_ROLLBACK}."
    if not flags.is_own and not is_resumable(rollout, serving):
        return (
            f"{_ROLLBACK} ends the rollout. {_RESUME} is refused until everyone gets "
            f"`{rollout.plan.control}` again. {serving_text(serving)}"
        )
    if flags.cause in (Cause.KILL_SWITCH, Cause.FLAG_EDIT) or not flags.is_own:
        edit = "" if flags.is_own else ", in place of what was edited"
        return f"{_RESUME} deals {rollout.weight} % of the users anew{edit}, or {_ROLLBACK}."
    return f"{_RESUME}, or {_ROLLBACK}."
