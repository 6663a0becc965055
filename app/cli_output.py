"""How the command line shows answers, videos and samplers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from app.cli_client import CliError, FramegateClient

Document = dict[str, Any]

# What is printed comes from callers, samplers and files: nothing in it is markup.
console = Console(markup=False, emoji=False)
error_console = Console(stderr=True, markup=False, emoji=False)

UNCUT_WIDTH = 500
"""Columns for a table that the terminal may wrap, but that must not be cut."""
LEAST_BESIDE_IDS = 62
"""Columns that the table of samplers, or of a comparison, needs beside the ids."""


def console_for(ids: Iterable[str]) -> Console:
    """As wide as the terminal, or wider where an id in the first column would else be cut."""
    longest = max(map(len, ids), default=0)
    width = max(console.width, longest + LEAST_BESIDE_IDS)
    return Console(width=width, markup=False, emoji=False)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on standard error, so that standard output stays the answer's."""
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=error_console, disable=not sys.stderr.isatty()) as progress:
        yield progress


def stream_answer(client: FramegateClient, body: Document, *, echo: bool) -> Document:
    """The finished answer's document; with `echo`, tokens are printed as they come."""
    for event in client.ask(body):
        if event.name == "token" and echo:
            console.print(event.data["text"], end="", markup=False, highlight=False)
        elif event.name == "error":
            raise CliError(f"{event.data['title']}. {event.data['detail']}")
        elif event.name == "done":
            if echo:
                console.print()
            return event.data
    raise CliError("The service closed the stream before the answer was done; ask again.")


def show_evidence(answer: Document) -> None:
    """Frames, sampler, budget, tokens and times of one answer."""
    evidence = answer["evidence"]
    sampler = evidence["sampler"]
    variant = f", variant {sampler['variant']}" if sampler["variant"] else ""
    budget = evidence["budget"]
    tokens = evidence["vision_tokens"]
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("frames", ", ".join(f"{f['seconds']:.2f} s" for f in evidence["frames"]))
    table.add_row(
        "sampler",
        f"{sampler['id']} {sampler['version']} ({sampler['reason']}{variant})",
    )
    if sampler["fallback"]:
        fallback = sampler["fallback"]
        table.add_row(
            "fallback", f"{fallback['sampler']} {fallback['kind']}: {fallback['message']}"
        )
    if sampler["note"]:
        table.add_row("why these", sampler["note"])
    table.add_row("budget", f"{budget['frames']} frames, limited by {budget['limited_by']}")
    table.add_row(
        "tokens",
        f"{tokens['before_reduction']} → {tokens['after_reduction']} by `{tokens['reducer']}`",
    )
    table.add_row("times", ", ".join(f"{k} {v:.3f} s" for k, v in answer["timings_s"].items()))
    for warning in evidence["warnings"]:
        table.add_row("warning", warning)
    table.add_row("answer", f"{answer['answer_id']}, trace {answer['trace_id']}")
    console.print(table)


def show_videos(videos: list[Document]) -> None:
    """One line a video, as wide as it is: a `video_id` that was cut could not be used."""
    table = Table("video", "status", "seconds", "frames", "candidates", "size", box=None)
    for video in videos:
        facts = video.get("facts") or {}
        table.add_row(
            video["video_id"],
            _status_text(video),
            f"{facts['duration_s']:.2f}" if facts else "",
            str(facts.get("num_frames", "")),
            str(facts.get("num_candidates", "")),
            f"{video['size_bytes'] / 1e6:.1f} MB",
        )
    Console(width=UNCUT_WIDTH, markup=False, emoji=False).print(table)


def _status_text(video: Document) -> str:
    if video["status"] == "processing":
        return f"processing {video['progress']:.0%}"
    if video["problem"]:
        return f"{video['status']}: {video['problem']['type'].rpartition(':')[2]}"
    return str(video["status"])


def show_samplers(document: Document) -> None:
    """One row a sampler; options take several lines where the terminal is narrow."""
    table = Table(box=None, pad_edge=False)
    for name in ("sampler", "version", "from"):
        table.add_column(name, no_wrap=True)
    for name in ("fills\nbudget", "uses\nquery", "options"):
        table.add_column(name, overflow="fold")
    for sampler in document["samplers"]:
        options = ", ".join(f"{o['name']}={_option_text(o['value'])}" for o in sampler["options"])
        table.add_row(
            sampler["id"],
            sampler["version"],
            "Framegate" if sampler["is_builtin"] else "outside",
            "yes" if sampler["fills_budget"] else "no",
            "yes" if sampler["uses_query"] else "no",
            options,
        )
    console_for(sampler["id"] for sampler in document["samplers"]).print(table)
    for lack, ids in _by_lack(document["samplers"]).items():
        console.print(f"not to be served here: {', '.join(ids)}: {lack}", style="yellow")
    for unavailable in document["unavailable"]:
        console.print(f"unavailable {unavailable['id']}: {unavailable['error']}", style="red")


def _by_lack(samplers: list[Document]) -> dict[str, list[str]]:
    """Who lacks what this deployment has not."""
    lacking: dict[str, list[str]] = {}
    for sampler in samplers:
        if sampler["lacks"] is not None:
            lacking.setdefault(sampler["lacks"], []).append(sampler["id"])
    return lacking


def show_sampler(sampler: Document) -> None:
    """One sampler of `GET /v1/samplers`, and all that its options can be."""
    console.print(f"{sampler['id']}, version {sampler['version']}", style="bold", highlight=False)
    console.print(sampler["doc"], highlight=False)
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    facts.add_row("from", "Framegate" if sampler["is_builtin"] else "outside")
    if sampler["base"] is not None:
        facts.add_row("variant of", sampler["base"])
    else:
        facts.add_row("variants", ", ".join(sampler["variants"]) or "none")
    facts.add_row("fills budget", "yes" if sampler["fills_budget"] else "no")
    facts.add_row("uses query", "yes" if sampler["uses_query"] else "no")
    facts.add_row("asks a model", "yes" if sampler["uses_scorer"] else "no")
    if sampler["lacks"] is not None:
        facts.add_row("not to be served", sampler["lacks"])
    console.print(facts)
    if not sampler["options"]:
        console.print("It has no options.")
        return
    options = Table("option", "type", "default", "here", "what it does", box=None, pad_edge=False)
    for option in sampler["options"]:
        choices = " | ".join(map(_option_text, option["choices"]))
        values = (_option_text(option[key]) for key in ("default", "value"))
        options.add_row(option["name"], choices or option["type"], *values, option["doc"])
    console.print(options)


def _option_text(value: object) -> str:
    """As it is written in FRAMEGATE_SAMPLER_OPTIONS, and in a variant's name."""
    return value if isinstance(value, str) else json.dumps(value)
