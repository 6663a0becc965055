"""`framegate shadow`: how the sampler in shadow compares with the one that serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from app.cli_client import CliError
from app.cli_options import AsJson, Server, connect
from app.cli_output import console
from shadow.report_document import (
    CostFigures,
    Disagreement,
    Distribution,
    GroupReport,
    PairReport,
    ShadowReport,
    Unit,
)
from shadow.report_text import bounds_text, count_text, moment_text, seconds_text, value_text

REPORT = "/v1/shadow/report"
MAX_FRAMES_SHOWN = 6
MAX_QUESTION_CHARS = 160
WIDE_COLUMNS = 100
"""Of a terminal; narrower ones do without the quantiles."""

shadow_app = typer.Typer(help="The sampler in shadow.", no_args_is_help=True)


@shadow_app.callback()
def shadow() -> None:
    """The sampler in shadow, compared with the one that serves."""


@shadow_app.command("report")
def report(
    since: Annotated[
        str, typer.Option(help="So long ago (90m, 24h, 7d) or a time (2026-11-30T12:00:00Z).")
    ] = "24h",
    until: Annotated[str | None, typer.Option(help="The same; default now.")] = None,
    sampler: Annotated[
        str | None, typer.Option(help="Only comparisons with this sampler in shadow.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the page with plots and pictures to this file.")
    ] = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Compare the sampler in shadow with the one that serves: differences, costs, failures."""
    if html is not None and as_json:
        raise CliError("--html and --json are two reports: ask for one of them.")
    fields = {"since": since, "until": until, "sampler": sampler}
    parameters = {name: value for name, value in fields.items() if value is not None}
    with connect(server) as client:
        if html is not None:
            write_page(html, client.get_text(REPORT, format="html", **parameters))
            return
        document = client.get(REPORT, format="json", **parameters)
    if as_json:
        console.print_json(json.dumps(document))
    else:
        show_report(ShadowReport.model_validate(document))


def write_page(path: Path, text: str) -> None:
    """Raises `CliError` where the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise CliError(f"{path} cannot be written: {exc.strerror}") from exc
    size = len(text.encode()) / 1e6
    console.print(f"Wrote {path} ({size:.1f} MB). Open it in a browser; it needs nothing else.")


def show_report(shown: ShadowReport) -> None:
    """Tables for a terminal; the page has plots and pictures besides."""
    console.print(Text(shown.headline, style="bold"))
    facts = (
        f"{moment_text(shown.since)} to {moment_text(shown.until)}",
        count_text(shown.num_comparisons, "comparison"),
        count_text(shown.num_a_a, "A/A comparison"),
        count_text(shown.num_users, "user"),
    )
    console.print(Text(", ".join(facts), style="dim"))
    for note in shown.notes:
        console.print(Text(f"Note: {note}", style="yellow"))
    for number, pair in enumerate(shown.pairs):
        show_pair(pair, is_first=number == 0)
    if shown.pairs:
        console.print(Text("\nWith plots and pictures: framegate shadow report --html report.html"))


def show_pair(pair: PairReport, *, is_first: bool) -> None:
    console.print()
    if not is_first:
        console.print(Text(pair.headline, style="bold"))
    console.print(_measures_table(pair))
    console.print(_costs_table(pair))
    console.print(_failures_table(pair))
    if len(pair.by_llm) > 1:
        console.print(_llm_table(pair))
    if pair.worst:
        console.print(_worst_table(pair.worst))


def _table(title: str, *columns: str, num_left: int = 1) -> Table:
    """The first `num_left` columns hold words, the others figures."""
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for number, column in enumerate(columns):
        is_left = number < num_left
        table.add_column(
            column, justify="left" if is_left else "right", header_style="dim", no_wrap=not is_left
        )
    return table


def _measures_table(pair: PairReport) -> Table:
    title = f"{pair.shadow.id} in the shadow of {pair.control.id}: differences"
    is_wide = console.width >= WIDE_COLUMNS
    quantiles = ("5 % to 95 %",) if is_wide else ()
    table = _table(title, "measure", "mean", "bounds", *quantiles, "A/A", "differs", "compared")
    for measure in pair.overall.measures:
        values, unit = measure.values, measure.unit
        floor = "–" if measure.a_a is None else value_text(measure.a_a.mean, unit)
        figures = ["–", "–", "–"]
        if values is not None:
            figures = [
                value_text(values.mean, unit),
                bounds_text(values.low, values.high, unit),
                bounds_text(values.p05, values.p95, unit),
            ]
        table.add_row(
            measure.label,
            *figures[: 3 if is_wide else 2],
            floor,
            {True: "yes", False: "no", None: "–"}[measure.is_beyond_noise],
            "0" if values is None else f"{values.num_comparisons:,}",
        )
    return table


def _costs_table(pair: PairReport) -> Table:
    columns = ("mean and p95", pair.control.id, pair.shadow.id, "difference", "bounds")
    table = _table("Cost per answer", *columns)
    for cost in pair.overall.costs:
        table.add_row(
            cost.label,
            _figures_text(cost.control, cost.unit),
            _figures_text(cost.shadow, cost.unit),
            value_text(cost.difference, cost.difference_unit),
            bounds_text(cost.low, cost.high, cost.difference_unit),
        )
    return table


def _figures_text(figures: CostFigures, unit: Unit) -> Text:
    mean = Text(value_text(figures.mean, unit))
    return mean.append(f"\n{value_text(figures.p95, unit)}", style="dim")


def _failures_table(pair: PairReport) -> Table:
    table = _table("Failures", "side", "by kind", "failed", "users hit", "bounds", num_left=2)
    group = pair.overall
    for name, side in (("control", group.control_failures), ("shadow", group.shadow_failures)):
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in side.by_kind.items())
        table.add_row(
            f"{side.sampler_id}, {name}",
            kinds or "–",
            f"{side.num_failed:,} of {group.num_comparisons:,}",
            value_text(side.users_share, Unit.SHARE),
            bounds_text(side.users_low, side.users_high, Unit.SHARE),
        )
    return table


def _llm_table(pair: PairReport) -> Table:
    names = [", ".join(group.llm_ids) for group in pair.by_llm]
    table = _table("By language model", "mean, bounds", *names)
    table.add_row("Comparisons", *(f"{group.num_comparisons:,}" for group in pair.by_llm))
    for number, measure in enumerate(pair.overall.measures):
        if measure.values is not None:
            cells = (_mean_text(group, number) for group in pair.by_llm)
            table.add_row(measure.label, *cells)
    return table


def _mean_text(group: GroupReport, number: int) -> str:
    measure = group.measures[number]
    values: Distribution | None = measure.values
    if values is None:
        return "–"
    bounds = bounds_text(values.low, values.high, measure.unit)
    return f"{value_text(values.mean, measure.unit)}, {bounds}"


def _worst_table(worst: list[Disagreement]) -> Table:
    columns = ("question", "frames of each side", "same", "nearly", "distance")
    table = _table("Where they differ most", *columns, num_left=2)
    for found in worst:
        question = _readable(found.question)
        sides = "\n".join(
            f"{side.sampler_id}: {_times_text([frame.seconds for frame in side.frames])}"
            for side in (found.control, found.shadow)
        )
        table.add_row(
            Text(question, overflow="fold"),
            Text(sides, overflow="fold"),
            value_text(found.overlap_exact, Unit.SHARE),
            value_text(found.overlap_within, Unit.SHARE),
            seconds_text(found.temporal_distance_s),
        )
    return table


def _times_text(times: list[float]) -> str:
    shown = ", ".join(f"{seconds:.1f}" for seconds in times[:MAX_FRAMES_SHOWN])
    return f"{shown}{', …' if len(times) > MAX_FRAMES_SHOWN else ''} s"


def _readable(text: str) -> str:
    """Short, and without what could steer the terminal: users wrote it."""
    short = text if len(text) <= MAX_QUESTION_CHARS else f"{text[:MAX_QUESTION_CHARS]}…"
    return "".join(sign if sign.isprintable() else " " for sign in short)
