"""`framegate samplers compare`: what several samplers choose for one question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from app.cli_client import CliError
from app.cli_ingest import ingest
from app.cli_options import AsJson, Server, connect
from app.cli_output import console, console_for, error_console
from app.compare_text import readable, time_text

FORMATS: Final = {".png": "png", ".svg": "svg"}
ABSENT: Final = "–"


def compare(
    video: Annotated[str, typer.Argument(help="A video file, or the video_id of an earlier one.")],
    question: Annotated[str, typer.Argument(help="The question.")],
    samplers: Annotated[
        str, typer.Option(help="Ids, separated by commas; the others are measured from the first.")
    ] = "uniform,aks,bolt",
    budget: Annotated[int, typer.Option(help="Frames for each sampler.")] = 16,
    out: Annotated[
        Path | None, typer.Option(help="Write the picture to this file: .png or .svg.")
    ] = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Show side by side what several samplers choose for one question: a table, and a picture."""
    picture_format = None if out is None else FORMATS.get(out.suffix.lower())
    if out is not None and picture_format is None:
        raise CliError(f"{out} is no name for a picture: it ends in {' or '.join(FORMATS)}.")
    fields: dict[str, str | int] = {"question": question, "samplers": samplers, "budget": budget}
    with connect(server) as client:
        path = f"/v1/videos/{ingest(client, video)}/compare"
        document = client.get(path, format="json", **fields)
        if as_json:
            console.print_json(json.dumps(document))
        else:
            show_comparison(document)
        if out is not None and picture_format is not None:
            write_picture(out, client.get_bytes(path, format=picture_format, **fields))


def write_picture(path: Path, content: bytes) -> None:
    """Raises `CliError` where the file cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as exc:
        raise CliError(f"{path} cannot be written: {exc.strerror}.") from exc
    error_console.print(f"Wrote {path} ({len(content) / 1000:,.0f} kB).", highlight=False)


def show_comparison(document: dict[str, Any]) -> None:
    """A row a sampler; one that failed says so in place of its frames."""
    rows = document["samplers"]
    table = Table(box=None, pad_edge=False)
    table.add_column("sampler", no_wrap=True)
    measures = ("relevance", "redundancy", "shots", f"from {rows[0]['id']}", "ms")
    for name in measures:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("frames", overflow="fold")
    for row in rows:
        table.add_row(
            row["id"],
            _number(row["relevance"], "{:.3f}"),
            _number(row["redundancy"], "{:.3f}"),
            _number(row["scene_coverage"], "{:.0%}"),
            _number(row["distance_s"], "{:.2f} s"),
            f"{row['latency_s'] * 1000:.1f}",
            _frames_text(row, document["duration_s"]),
        )
    console_for(row["id"] for row in rows).print(table)
    for text in _remarks(document):
        console.print(Text(readable(text), style="yellow"))


def _number(value: float | None, form: str) -> str:
    return ABSENT if value is None else form.format(value)


def _frames_text(row: dict[str, Any], duration_s: float) -> Text:
    if row["failure"] is not None:
        return Text(f"failed: {row['failure']['kind']}", style="red")
    return Text(", ".join(time_text(frame["seconds"], duration_s) for frame in row["frames"]))


def _remarks(document: dict[str, Any]) -> list[str]:
    rows = document["samplers"]
    failures = [f"{row['id']}: {row['failure']['message']}" for row in rows if row["failure"]]
    notes = [f"{row['id']}: {row['note']}" for row in rows if row["note"]]
    costs = [
        f"{row['id']}: {row['scorer']['calls']} calls of {row['scorer']['model']}, "
        f"{row['scorer']['cached_scores']} scores were cached"
        for row in rows
        if row["scorer"]
    ]
    return [*document["warnings"], *failures, *notes, *costs]
