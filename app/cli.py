"""The `framegate` command: run the service, ask about a video, and operate it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli_client import CliError
from app.cli_ingest import ingest
from app.cli_kill_switch import kill_switch_app
from app.cli_ledger import delete_user, feedback
from app.cli_options import AsJson, Server, connect
from app.cli_output import console, error_console, show_evidence, stream_answer
from app.cli_output import show_videos as print_videos
from app.cli_rollout import rollout_app
from app.cli_samplers import samplers_app
from app.cli_shadow import shadow_app
from app.demo import run_demo
from app.sampler_table import load_sampler_table
from app.settings import SettingsError, changed_settings, load_settings
from app.supervise.services import serve as serve_forever
from app.supervise.services import stop as stop_service
from flags.check import check_flag_text, check_lacks
from flags.findings import Severity
from flags.provider import MAX_FLAG_FILE_BYTES
from flags.stamped_file import StampedFile, UnreadableFileError
from samplers.contract import SamplerError

app = typer.Typer(
    name="framegate",
    help="Answers questions about videos; flags choose which frames the model sees.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
flags_app = typer.Typer(help="Flag files.", no_args_is_help=True)
app.add_typer(flags_app, name="flags")
app.add_typer(kill_switch_app, name="kill-switch")
app.add_typer(rollout_app, name="rollout")
app.add_typer(samplers_app, name="samplers")
app.add_typer(shadow_app, name="shadow")
app.command()(feedback)
app.command()(delete_user)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Overrides FRAMEGATE_HOST.")] = None,
    port: Annotated[int | None, typer.Option(help="Overrides FRAMEGATE_PORT.")] = None,
    workers: Annotated[int, typer.Option(help="Gateway processes; only 1 is supported.")] = 1,
) -> None:
    """Run the service: gateway, encoder process and language model, until Ctrl-C."""
    if workers != 1:
        raise CliError(
            "--workers above 1 is not supported yet: indexing and running answers are tracked in "
            "one gateway process. Run one worker; the encoder and the LLM have their own processes."
        )
    changes = {k: v for k, v in {"host": host, "port": port}.items() if v is not None}
    settings = changed_settings(load_settings(), changes)
    # The gateway would end at what is wrong with them, each time it is started anew.
    load_sampler_table(settings.extra_sampler_targets, settings.sampler_options)
    raise typer.Exit(asyncio.run(serve_forever(settings)))


@app.command()
def stop() -> None:
    """Stop the service that runs on this data folder."""
    settings = load_settings()
    if asyncio.run(stop_service(settings)):
        console.print("Stopped.")
    else:
        console.print(f"Nothing is running on {settings.data_dir}.")


@app.command()
def demo() -> None:
    """Start the service, ingest a real clip, ask about it, and leave the service running."""
    run_demo(load_settings())


@app.command()
def ask(
    video: Annotated[str, typer.Argument(help="A video file, or the video_id of an earlier one.")],
    question: Annotated[str, typer.Argument(help="The question.")],
    sampler: Annotated[str | None, typer.Option(help="Operators: use this sampler.")] = None,
    budget: Annotated[int | None, typer.Option(help="At most so many frames.")] = None,
    user: Annotated[str | None, typer.Option(help="User id, for sticky assignment.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest answer, in tokens.")] = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Upload a video (unless it is known), wait for its index, ask, print answer and evidence."""
    fields = {"sampler": sampler, "budget": budget, "user_id": user, "max_tokens": max_tokens}
    body: dict[str, Any] = {k: v for k, v in fields.items() if v is not None}
    with connect(server) as client:
        body |= {"video_id": ingest(client, video), "question": question}
        answer = stream_answer(client, body, echo=not as_json)
    if as_json:
        console.print_json(json.dumps(answer))
    else:
        show_evidence(answer)


@app.command()
def videos(as_json: AsJson = False, server: Server = None) -> None:
    """List the videos and how far they are."""
    with connect(server) as client:
        document = client.get("/v1/videos", limit=100)
    if as_json:
        console.print_json(json.dumps(document))
    else:
        print_videos(document["videos"])


@flags_app.command("check")
def flags_check(
    file: Annotated[Path, typer.Argument(help="A flagd-format flag file.")],
) -> None:
    """Find what would go wrong with a flag file, silently or not, before it is put in place."""
    settings = load_settings()
    table = load_sampler_table(
        settings.extra_sampler_targets,
        settings.sampler_options,
        has_scorer=settings.scorer_url is not None,
    )
    try:
        content = StampedFile(file, max_bytes=MAX_FLAG_FILE_BYTES).read()
    except UnreadableFileError as exc:
        raise CliError(f"{file} cannot be read: {exc}.") from exc
    if content is None:
        raise CliError(f"{file} cannot be read: there is no such file.")
    findings = [*check_flag_text(content, table.ids), *check_lacks(content, table.why_unusable)]
    for finding in findings:
        colour = "red" if finding.severity is Severity.ERROR else "yellow"
        console.print(str(finding), style=colour, highlight=False)
    has_errors = any(finding.severity is Severity.ERROR for finding in findings)
    if not findings:
        console.print(f"{file}: no findings.")
    raise typer.Exit(1 if has_errors else 0)


def main() -> None:
    """Entry point: known errors are one readable line, never a traceback."""
    try:
        app()
    except (CliError, SettingsError, SamplerError) as exc:
        error_console.print(f"Error: {exc}", style="red", highlight=False)
        raise SystemExit(1) from exc


if __name__ == "__main__":
    main()
