"""`framegate kill-switch`: sets the switch in the data folder, and sees that the service obeys."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from app.cli_client import CliError
from app.cli_options import connect
from app.cli_output import console
from app.settings import Settings, load_settings
from flags.kill_switch import FileKillSwitch, KillState

WAY_OUT = (
    "Run the command in the folder where the service was started, or set FRAMEGATE_DATA_DIR "
    "(FRAMEGATE_KILL_SWITCH_FILE) as it is set there."
)

kill_switch_app = typer.Typer(
    help="Force the baseline sampler for every answer, whatever the flags say.",
    no_args_is_help=True,
)


@kill_switch_app.command("on")
def turn_on(
    why: Annotated[str, typer.Option(help="Kept with the switch and shown in /readyz.")],
    who: Annotated[str, typer.Option(help="Your name.")] = "command line",
) -> None:
    """Every next answer is by `uniform`. Works also while the service is down."""
    settings = load_settings()
    state = _set(settings, is_on=True, who=who, why=why)
    note = _check_obeyed(settings, state)
    console.print(f"Kill switch ON since {state.at}: the next answer uses `uniform`{note}.")
    console.print(_effect(), highlight=False, soft_wrap=True)
    console.print("Back to the flags: framegate kill-switch off --why …")


@kill_switch_app.command("off")
def turn_off(
    why: Annotated[str, typer.Option(help="Kept with the switch.")],
    who: Annotated[str, typer.Option(help="Your name.")] = "command line",
) -> None:
    """Let the flags decide again."""
    settings = load_settings()
    state = _set(settings, is_on=False, who=who, why=why)
    note = _check_obeyed(settings, state)
    console.print(f"Kill switch off: the flags decide the next answer{note}.")
    console.print(_effect(), highlight=False, soft_wrap=True)


@kill_switch_app.command("status")
def show_status() -> None:
    """Is it on, since when, by whom and why."""
    settings = load_settings()
    state = FileKillSwitch(settings.kill_switch_path).read()
    _check_obeyed(settings, state)
    text = "ON" if state.is_on else "off"
    console.print(f"Kill switch {text}. {state.at} {state.who} {state.why}".strip())
    console.print(_effect(), highlight=False, soft_wrap=True)


def _effect() -> str:
    """What the flags do, in the service's words; the switch itself needs no service."""
    try:
        with connect(None) as client:
            return str(client.get("/v1/kill-switch")["effect"])
    except CliError:
        return (
            "Without the switch, users are dealt by the flag file, also those of a rollout: "
            "`framegate rollout status` tells once a service answers."
        )


def _set(settings: Settings, *, is_on: bool, who: str, why: str) -> KillState:
    if not (who.strip() and why.strip()):
        raise CliError("Say --why, and --who if you say it: the switch keeps both.")
    path = settings.kill_switch_path.absolute()
    if not path.parent.is_dir():
        raise CliError(f"{path.parent} does not exist, so no service can obey. {WAY_OUT}")
    try:
        return FileKillSwitch(path).set(is_on=is_on, who=who.strip(), why=why.strip())
    except OSError as exc:
        raise CliError(f"The kill switch is as it was: {path} cannot be written ({exc}).") from exc


def _check_obeyed(settings: Settings, state: KillState) -> str:
    """What to add where no service answers. Raises `CliError` where one sees another switch."""
    with connect(None) as client:
        document = client.readiness()
    if document is None:
        return f", once a service runs; none answers at {settings.local_url}"
    if document.get("kill_switch") == asdict(state):
        return ""
    raise CliError(
        f"The service at {settings.local_url} does not look at "
        f"{settings.kill_switch_path.absolute()}, which says {'ON' if state.is_on else 'off'}; "
        f"it works on another data folder. {WAY_OUT}"
    )
