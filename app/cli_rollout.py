"""`framegate rollout`: a new sampler for a few users first, watched, and gone in an instant."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final

import typer

from app.cli_client import CliError, FramegateClient, NoAnswerError, sentence
from app.cli_options import AsJson, Server, connect
from app.cli_output import console
from app.cli_rollout_output import say, show_history, show_rollouts, show_status, show_step
from flags.guard_text import parse_guard
from flags.rollout_defaults import (
    DEFAULT_GUARDS,
    DEFAULT_MIN_ANSWERS,
    DEFAULT_MIN_USERS,
    DEFAULT_STAGES,
)

ROLLOUTS: Final = "/v1/rollouts"
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
ACTIVE: Final = ("running", "paused")
OTHER_WAYS_BACK: Final = (
    "Two ways back work without it: give everyone the control in the flag file (docs/flags.md), or "
    "`framegate kill-switch on --why …`; the next answer of every gateway on this data folder "
    "obeys."
)

rollout_app = typer.Typer(
    help="Staged rollouts: a candidate for a few users first, watched by guards.",
    no_args_is_help=True,
)

Who = Annotated[
    str, typer.Option(help="Required: your name, for the audit log.", show_default=False)
]
Why = Annotated[str, typer.Option(help="Required: kept in the audit log.", show_default=False)]
RolloutId = Annotated[
    str | None,
    typer.Option("--id", help="Or its beginning. Default: the one that runs, else the latest."),
]


@rollout_app.command("start")
def start(
    candidate: Annotated[str, typer.Argument(help="A sampler or variant (`framegate samplers`).")],
    who: Who = "",
    why: Why = "",
    stages: Annotated[str, typer.Option(help="Percent of the users, rising.")] = ",".join(
        map(str, DEFAULT_STAGES)
    ),
    dwell: Annotated[str, typer.Option(help="Least time in a stage: 45s, 30m, 1h, 2d.")] = "1h",
    min_users: Annotated[
        int, typer.Option(help="Users in each arm, before a stage may be left.")
    ] = DEFAULT_MIN_USERS,
    min_exposures: Annotated[
        int, typer.Option(help="Answers in each arm, before a stage may be left.")
    ] = DEFAULT_MIN_ANSWERS,
    guard: Annotated[
        list[str] | None,
        typer.Option(help="Repeat for several. Default: " + ", ".join(DEFAULT_GUARDS)),
    ] = None,
    false_alarm_rate: Annotated[
        float, typer.Option(help="Of the whole rollout: all guards, all looks.")
    ] = 0.05,
    user_window: Annotated[
        str, typer.Option(help="A user is counted so long after the first answer, or ...")
    ] = "10m",
    user_answers: Annotated[int, typer.Option(help="... after so many answers.")] = 5,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Deal the first stage's users to CANDIDATE; the others keep what everyone gets now."""
    body = {
        "candidate": candidate,
        "stages": _stages(stages),
        "dwell_s": _seconds(dwell),
        "min_users": min_users,
        "min_answers": min_exposures,
        "guards": _guards(guard),
        "false_alarm_rate": false_alarm_rate,
        "user_window_s": _seconds(user_window),
        "user_answers": user_answers,
        **_by(who, why),
    }
    with connect(server) as client:
        _tell(client.post(ROLLOUTS, body), as_json=as_json)


@rollout_app.command("status")
def status(rollout_id: RolloutId = None, as_json: AsJson = False, server: Server = None) -> None:
    """Where it stands, what each guard says, what comes next and when."""
    with connect(server) as client:
        document = client.get(f"{ROLLOUTS}/{_chosen(client, rollout_id)}")
    if as_json:
        console.print_json(json.dumps(document))
    else:
        show_status(document)


@rollout_app.command("list")
def list_rollouts(as_json: AsJson = False, server: Server = None) -> None:
    """All rollouts, the newest first."""
    with connect(server) as client:
        document = client.get(ROLLOUTS)
    if as_json:
        console.print_json(json.dumps(document))
    else:
        show_rollouts(document["rollouts"])


@rollout_app.command("advance")
def advance(
    who: Who = "",
    why: Why = "",
    rollout_id: RolloutId = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """To the next stage now; after the last one, to everyone. Refused while a guard fails."""
    _command("advance", _by(who, why), rollout_id, server, as_json=as_json)


@rollout_app.command("pause")
def pause(
    who: Who = "",
    why: Why = "",
    rollout_id: RolloutId = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Keep the weights until `resume`. A failing guard still rolls back."""
    _command("pause", _by(who, why), rollout_id, server, as_json=as_json)


@rollout_app.command("resume")
def resume(
    who: Who = "",
    why: Why = "",
    rollout_id: RolloutId = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Go on in the stage where it was paused."""
    _command("resume", _by(who, why), rollout_id, server, as_json=as_json)


@rollout_app.command("rollback")
def rollback(
    who: Who = "",
    why: Why = "",
    to: Annotated[
        str | None, typer.Option(help="The sampler for everyone; default: the control.")
    ] = None,
    rollout_id: RolloutId = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Nobody gets the candidate any more; the next answer obeys."""
    body = _by(who, why) | ({} if to is None else {"to": to})
    try:
        _command("rollback", body, rollout_id, server, as_json=as_json)
    except NoAnswerError as exc:
        raise CliError(f"{exc} {OTHER_WAYS_BACK}") from exc


@rollout_app.command("history")
def history(rollout_id: RolloutId = None, as_json: AsJson = False, server: Server = None) -> None:
    """The audit log: every step, who took it and why."""
    with connect(server) as client:
        document = client.get(f"{ROLLOUTS}/{_chosen(client, rollout_id)}/history")
    if as_json:
        console.print_json(json.dumps(document))
    else:
        show_history(document["steps"])


@rollout_app.command("score")
def score(
    sampler: Annotated[str, typer.Argument(help="The id of a sampler.")],
    value: Annotated[float, typer.Argument(metavar="SCORE", help="0 to 1, higher is better.")],
    dataset: Annotated[str, typer.Option(help="What it was evaluated on.")],
    questions: Annotated[int, typer.Option(help="How many questions that were.")],
    who: Who = "",
    why: Why = "",
    server: Server = None,
) -> None:
    """Record how a sampler did in an evaluation outside the service, for guards to compare."""
    body = {
        "sampler": sampler,
        "score": value,
        "dataset": dataset,
        "num_questions": questions,
        **_by(who, why),
    }
    with connect(server) as client:
        made = client.post("/v1/offline-scores", body)
    say(
        f"Recorded: {made['sampler']} {made['version']} scores {made['score']} on "
        f"{made['dataset']} ({made['num_questions']} questions)."
    )
    say(f"Next:     {made['next']}")


def _command(
    name: str, body: dict[str, Any], rollout_id: str | None, server: str | None, *, as_json: bool
) -> None:
    with connect(server) as client:
        chosen = _chosen(client, rollout_id)
        _tell(client.post(f"{ROLLOUTS}/{chosen}/{name}", body), as_json=as_json)


def _tell(rollout: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        console.print_json(json.dumps(rollout))
    else:
        show_step(rollout)


def _by(who: str, why: str) -> dict[str, Any]:
    """Who takes a step, and why: both are asked for at once."""
    said = {"who": who.strip(), "why": why.strip()}
    missing = [f"--{name}" for name, text in said.items() if not text]
    if missing:
        raise CliError(
            f"Say {' and '.join(missing)}: the audit log keeps your name and the reason, such as "
            '--who ana --why "3 points better on our question set".'
        )
    return said


def _chosen(client: FramegateClient, rollout_id: str | None) -> str:
    rollouts = client.get(ROLLOUTS)["rollouts"]
    if rollout_id is not None:
        return id_of(rollout_id, [str(rollout["rollout_id"]) for rollout in rollouts])
    if not rollouts:
        raise CliError("There was no rollout yet. `framegate rollout start --help` says how.")
    active = [rollout for rollout in rollouts if rollout["state"] in ACTIVE]
    return str((active or rollouts)[0]["rollout_id"])


def id_of(beginning: str, rollout_ids: list[str]) -> str:
    """The one rollout whose id begins so. Raises `CliError`."""
    found = [one for one in rollout_ids if one.startswith(beginning)]
    if beginning in found:
        return beginning
    if len(found) > 1:
        raise CliError(f"--id {beginning} begins {', '.join(found)}: write more of it.")
    if not found:
        raise CliError(f"There is no rollout {beginning}. `framegate rollout list` shows them all.")
    return found[0]


def _stages(text: str) -> list[int]:
    try:
        return [int(part.strip().removesuffix("%")) for part in text.split(",")]
    except ValueError:
        raise CliError(f"--stages {text}: write whole percents, such as 1,5,25,50.") from None


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if found is None:
        raise CliError(f"{text} is no time: write 45s, 30m, 1h or 2d.")
    return float(found[1]) * SECONDS[found[2] or "s"]


def _guards(texts: list[str] | None) -> list[str]:
    if not texts:
        return list(DEFAULT_GUARDS)
    try:
        for text in texts:
            parse_guard(text)
    except ValueError as exc:
        raise CliError(sentence(f"--guard {exc}")) from exc
    return texts
