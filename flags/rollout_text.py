"""What an operator is told about a rollout: where it stands, what comes next, and when."""

from __future__ import annotations

from dataclasses import dataclass

from flags.guard_report import GuardReport
from flags.rollout import waits_for_a_person
from flags.rollout_plan import Rollout, RolloutState, Verdict
from flags.targeting import TOTAL_WEIGHT


@dataclass(frozen=True, slots=True)
class Outlook:
    """What comes next."""

    next: str
    next_at_s: float | None
    """Not before; None where a person has the word, or nothing comes."""


def outlook(rollout: Rollout, report: GuardReport | None, now_s: float) -> Outlook:
    """`report`: what the guards say now; None for a rollout that is over."""
    if rollout.state is RolloutState.COMPLETED:
        what = f"Nothing: `{rollout.plan.candidate}` is what everyone gets. "
        return Outlook(what + "`framegate rollout rollback` gives back the control.", None)
    if rollout.state is RolloutState.ROLLED_BACK:
        return Outlook("Nothing. `framegate rollout start` begins a new one, dealt anew.", None)
    if rollout.state is RolloutState.PAUSED:
        what = "Waits for a person: `framegate rollout resume`, or `framegate rollout rollback`."
        return Outlook(what, None)
    return _running(rollout, report, now_s)


def _running(rollout: Rollout, report: GuardReport | None, now_s: float) -> Outlook:
    if report is not None and report.verdict is Verdict.FAIL:
        return Outlook("Rolls back at the next look: a guard fails.", now_s)
    if report is not None and report.must_pause:
        return Outlook("Pauses at the next look.", now_s)
    if waits_for_a_person(rollout):
        what = (
            "All stages are done, and the guards watch on. `framegate rollout advance` gives "
            f"`{rollout.plan.candidate}` to everyone; `framegate rollout rollback` ends it."
        )
        return Outlook(what, None)
    due_s = rollout.stage_started_s + rollout.plan.dwell_s
    missing = [] if due_s <= now_s else [f"the dwell time of {duration_text(due_s - now_s)}"]
    missing += _missing_data(rollout, report)
    if report is not None and report.verdict is not Verdict.PASS:
        missing.append("every guard to pass")
    target = _target(rollout)
    if not missing:
        return Outlook(f"{target} at the next look.", now_s)
    return Outlook(f"{target} by itself; waits for {', '.join(missing)}.", max(due_s, now_s))


def _target(rollout: Rollout) -> str:
    if rollout.weight == TOTAL_WEIGHT:
        return "Is completed"
    return f"Goes to {rollout.plan.stages[rollout.stage + 1]} %"


def _missing_data(rollout: Rollout, report: GuardReport | None) -> list[str]:
    if report is None:
        return []
    plan = rollout.plan
    arms = {"candidate": report.candidate}
    if rollout.weight < TOTAL_WEIGHT:
        arms["control"] = report.control
    return [
        f"{count.users} of {plan.min_users} users and {count.answers} of {plan.min_answers} "
        f"answers ({name})"
        for name, count in arms.items()
        if count.users < plan.min_users or count.answers < plan.min_answers
    ]


def duration_text(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
