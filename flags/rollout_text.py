"""What an operator is told about a rollout: where it stands, what comes next, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from flags.guard_report import ArmCount, GuardReport
from flags.rollout import waits_for_a_person
from flags.rollout_flags import FlagsNow
from flags.rollout_hindrances import find_hindrance
from flags.rollout_plan import Rollout, RolloutState, Verdict
from flags.targeting import TOTAL_WEIGHT

MAX_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Outlook:
    """What comes next."""

    next: str
    next_at_s: float | None
    """Not before; None where no time is known, a person has the word, or nothing comes."""


def outlook(rollout: Rollout, report: GuardReport | None, flags: FlagsNow, now_s: float) -> Outlook:
    """`report`: what the guards say now; None for a rollout that is over."""
    if rollout.state is RolloutState.COMPLETED:
        what = f"Nothing: `{rollout.plan.candidate}` is what everyone gets. "
        return Outlook(what + "`framegate rollout rollback` gives back the control.", None)
    if rollout.state is RolloutState.ROLLED_BACK:
        return Outlook("Nothing. `framegate rollout start` begins a new one, dealt anew.", None)
    hindrance = find_hindrance(rollout, report, flags)
    if hindrance is not None:
        return Outlook(hindrance.text, now_s if hindrance.is_due else None)
    return _running(rollout, report, now_s)


def _running(rollout: Rollout, report: GuardReport | None, now_s: float) -> Outlook:
    if waits_for_a_person(rollout):
        return Outlook(_last_stage(rollout, report), None)
    due_s = rollout.stage_started_s + rollout.plan.dwell_s
    must_dwell = rollout.plan.dwell_s > 0 and due_s > now_s
    left_s = max(1.0, due_s - now_s)
    missing = [f"the dwell time of {duration_text(left_s)}"] if must_dwell else []
    missing_data = _missing_data(rollout, report)
    missing += missing_data
    if report is not None and report.verdict is not Verdict.PASS:
        missing.append(_open_guards(report))
    target = _target(rollout)
    if not missing:
        return Outlook(f"{target} at the next look.", max(due_s, now_s))
    slow = _counted_late(rollout) if missing_data else ""
    text = f"{target} by itself; waits for {', '.join(missing)}.{slow}"
    # Once the dwell time is over, users decide by when enough was seen, and no clock tells.
    return Outlook(text, due_s if due_s > now_s else None)


def _last_stage(rollout: Rollout, report: GuardReport | None) -> str:
    missing = ", ".join(_missing_data(rollout, report))
    seen = f"so far {missing}" if missing else "as much was seen as asked for"
    return (
        f"Stays at {rollout.weight} %, the last stage, watched by the guards, until you decide; "
        f"{seen}. `framegate rollout advance` gives `{rollout.plan.candidate}` to everyone; "
        "`framegate rollout rollback` ends it."
    )


def _counted_late(rollout: Rollout) -> str:
    """A warning where the dwell time is not what a stage takes."""
    plan = rollout.plan
    if plan.user_answers == 1 or plan.user_window_s <= plan.dwell_s:
        return ""
    return (
        f" Who asks fewer than {plan.user_answers} times is counted only "
        f"{duration_text(plan.user_window_s)} after the first answer, which is longer than the "
        f"dwell time of {duration_text(plan.dwell_s)} (`--user-window`, `--user-answers`)."
    )


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
        f"answers ({name}{open_text(count)})"
        for name, count in arms.items()
        if count.users < plan.min_users or count.answers < plan.min_answers
    ]


def open_text(count: ArmCount) -> str:
    """`; 24 users open, the first is counted by 12:09:33 UTC`."""
    if count.first_closes_s is None:
        return ""
    by = datetime.fromtimestamp(count.first_closes_s, UTC)
    users = "user" if count.open_users == 1 else "users"
    return f"; {count.open_users} {users} open, the first is counted by {by:%H:%M:%S} UTC"


def _open_guards(report: GuardReport) -> str:
    """Which guards the stage waits for; only the first ones by name."""
    names = [
        f"`{guard.guard}`"
        for guard in report.guards
        if guard.is_required and guard.verdict is not Verdict.PASS
    ]
    if not names:
        return "every guard to pass"
    shown, num_more = names[:MAX_NAMED], len(names) - MAX_NAMED
    if num_more > 0:
        shown.append(f"{num_more} more")
    listed = f"{', '.join(shown[:-1])} and {shown[-1]}" if shown[1:] else shown[0]
    return f"{'guard' if len(names) == 1 else 'guards'} {listed} to pass"


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
