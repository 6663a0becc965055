"""How the command line shows a rollout."""

from __future__ import annotations

from typing import Any, Final

from rich.table import Table
from rich.text import Text

from app.cli_output import console
from flags.figures import figure_text
from flags.guard_report import ArmCount
from flags.guard_text import parse_guard
from flags.rollout_journal import FLAGS_EVIDENCE
from flags.rollout_plan import Figure
from flags.rollout_text import open_text

Document = dict[str, Any]

VERDICT_COLOURS: Final = {"pass": "green", "fail": "red", "inconclusive": "yellow"}
STATE_COLOURS: Final = {
    "running": "green",
    "paused": "yellow",
    "completed": "green",
    "rolled_back": "red",
}
ARMS: Final = ("candidate", "control")
LEAST_WIDTH_FOR_REASONS: Final = 110
"""Columns of a terminal below which a guard's reason stands under the table, not in it."""
HAPPENED: Final = {
    "started": "Started: {candidate} for {new_weight} % of the users, {control} for the others.",
    "advanced": "Advanced: {candidate} from {old_weight} to {new_weight} % of the users.",
    "paused": "Paused at {new_weight} %. The weights stay as they are.",
    "resumed": "Resumed at {new_weight} %.",
    "rolled_back": "Rolled back from {old_weight} %: the next answer obeys.",
    "completed": "Completed: everyone gets {candidate}, also without a user id.",
    "new_epoch": "New epoch: the stage begins again.",
}


def show_step(rollout: Document) -> None:
    """What a command did, and what comes next."""
    step = rollout["last_step"]
    say(HAPPENED[step["kind"]].format(**(rollout | step)) + _dealt_anew(rollout, step))
    say(f"Flags:  {rollout['flags']}")
    show_next(rollout)
    say(f"Rollout {rollout['rollout_id']}, step {step['sequence']}, epoch {rollout['epoch']}.")


def _edit_of(step: Document) -> Document:
    """What the step did to the flag file; empty where it did nothing."""
    return dict(step["evidence"].get(FLAGS_EVIDENCE, {}).get("edit") or {})


def _dealt_anew(rollout: Document, step: Document) -> str:
    """What a resumption did to what it found in the flag file."""
    if step["kind"] != "resumed" or not _edit_of(step):
        return ""
    old, new = step["old_weight"], step["new_weight"]
    found = "" if old == new else f" This replaced the {old} % that the flag file had."
    return f"{found} The users were dealt anew: epoch {rollout['epoch']}, another salt."


def _kind(step: Document) -> str:
    kind = str(step["kind"]).replace("_", " ")
    target = _edit_of(step).get("everyone") if step["kind"] == "rolled_back" else None
    return kind if target is None else f"{kind} to {target}"


def show_next(rollout: Document) -> None:
    at = "" if rollout["next_at"] is None else f" Not before {_clock(rollout['next_at'])}."
    say(f"Next:   {rollout['next']}{at}")


def show_status(rollout: Document) -> None:
    """Where it stands: stages, data, guards, what comes next."""
    state = str(rollout["state"])
    title = Text(f"Rollout {rollout['rollout_id']}  ")
    title.append(state.replace("_", " ").upper(), style=STATE_COLOURS[state])
    title.append(f"  {rollout['candidate']} against {rollout['control']}")
    console.print(title)
    last_step = rollout["last_step"]
    say(f"Stages: {_bar(rollout)}")
    say(f"Begun:  {_clock(rollout['started'])} by {rollout['started_by']}")
    if last_step["sequence"] > 1:
        say(f"Latest: {_kind(last_step)} {_clock(last_step['at'])} by {last_step['who']}")
    say(f"Why:    {rollout['reason']}")
    say(f"Flags:  {rollout['flags']}")
    say(f"Epoch:  {rollout['epoch']}, salt {rollout['salt']}")
    report = rollout["report"]
    if report is not None:
        _show_report(rollout, report)
    show_next(rollout)


def show_rollouts(rollouts: list[Document]) -> None:
    table = Table("rollout", "candidate", "control", "state", "stage", "why")
    for rollout in rollouts:
        table.add_row(
            rollout["rollout_id"],
            rollout["candidate"],
            rollout["control"],
            str(rollout["state"]).replace("_", " "),
            _bar(rollout),
            Text(rollout["reason"]),
        )
    console.print(table)


def show_history(steps: list[Document]) -> None:
    """The audit log, oldest first."""
    table = Table("#", "when", "what", "weight", "epoch", "who", "why")
    for step in steps:
        old = "–" if step["old_weight"] is None else f"{step['old_weight']} %"
        table.add_row(
            str(step["sequence"]),
            _clock(step["at"]),
            _kind(step),
            f"{old} → {step['new_weight']} %",
            str(step["epoch"]),
            Text(step["who"]),
            Text(step["why"]),
        )
    console.print(table)


def _show_report(rollout: Document, report: Document) -> None:
    plan = f"of {rollout['min_users']:,} users and {rollout['min_answers']:,} answers each"
    seen = ", ".join(
        f"{rollout[arm]} {report[arm]['users']:,} users and {report[arm]['answers']:,} answers"
        f"{_open_users(report[arm])}"
        for arm in ARMS
    )
    say(f"Seen:   {seen}; {plan}")
    table = Table()
    headings = ["guard", rollout["candidate"], rollout["control"], "verdict", "why"]
    is_narrow = console.width < LEAST_WIDTH_FOR_REASONS
    for heading in headings[:-1] if is_narrow else headings:
        table.add_column(heading, overflow="fold")
    for guard in report["guards"]:
        figure = parse_guard(guard["guard"]).figure
        verdict = Text(guard["verdict"], style=VERDICT_COLOURS[guard["verdict"]])
        cells = [
            Text(guard["guard"]),
            _figure(figure, guard["candidate"]),
            _figure(figure, guard["control"]),
            verdict,
        ]
        table.add_row(*cells, *([] if is_narrow else [Text(guard["reason"])]))
    console.print(table)
    for guard in report["guards"] if is_narrow else []:
        say(f"- {guard['guard']}: {guard['reason']}")
    if any(_lacks_bound(guard[arm]) for guard in report["guards"] for arm in ARMS):
        say("(?: no bound yet, because too few users are counted.)")
    say(f"Result: {report['reason']}")
    if report["sample_ratio"]["is_mismatch"]:
        say(f"Dealt:  {report['sample_ratio']['reason']}")


def _open_users(arm: Document) -> str:
    """` (24 users open, the first is counted by 12:09:33 UTC)`."""
    count = ArmCount(**arm)
    return f" ({open_text(count).removeprefix('; ')})" if count.open_users else ""


def _figure(figure: Figure, arm: Document) -> Text:
    """The estimate and its bounds: `0.4% (0.1% … 1.2%)`."""
    if arm["estimate"] is None:
        return Text("–")
    low, high = (
        "?" if arm[side] is None else figure_text(figure, arm[side]) for side in ("lower", "upper")
    )
    return Text(f"{figure_text(figure, arm['estimate'])} ({low} … {high})")


def _lacks_bound(arm: Document) -> bool:
    return arm["estimate"] is not None and None in (arm["lower"], arm["upper"])


def _bar(rollout: Document) -> str:
    """`1 → [5] → 25 %`: the stage in brackets while it is in force."""
    is_active = rollout["state"] in ("running", "paused")
    return (
        " → ".join(
            f"[{weight}]" if is_active and number == rollout["stage"] else str(weight)
            for number, weight in enumerate(rollout["stages"], start=1)
        )
        + " %"
    )


def _clock(moment: str) -> str:
    """`2026-11-30 14:03:22 UTC` of an ISO time."""
    return moment.replace("T", " ").partition(".")[0] + " UTC"


def say(line: str) -> None:
    """One line, which the terminal may wrap."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
