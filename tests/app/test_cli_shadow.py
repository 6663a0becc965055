"""`framegate shadow report`, run as users run it, and its tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.cli_output import console
from app.cli_shadow import show_report
from app.settings import ENV_PREFIX
from shadow.report import build_report
from shadow.report_document import ReportScope
from tests.app.answer_world import IndexedData, build_world, serving
from tests.shadow.report_records import NOW_S, comparison, many, side

Run = subprocess.CompletedProcess[str]
SCOPE = ReportScope(NOW_S - 10, NOW_S + 100_000)


class CommandLine:
    """`framegate shadow report` against one server."""

    def __init__(self, address: str, folder: Path) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX)}
        own = {"FRAMEGATE_PORT": address.rpartition(":")[2], "COLUMNS": "120"}
        self.environment = kept | own | {"FRAMEGATE_DATA_DIR": str(folder)}

    def __call__(self, *arguments: str) -> Run:
        return subprocess.run(
            [sys.executable, "-m", "app.cli", "shadow", "report", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def reported(
    tmp_path_factory: pytest.TempPathFactory, indexed: IndexedData
) -> Iterator[CommandLine]:
    folder = tmp_path_factory.mktemp("reported") / "data"
    world = build_world(folder, indexed)
    now_s = datetime.now(UTC).timestamp()
    records = [
        replace(record, video_id=indexed.short_id, created_s=now_s - 7200.0)
        for record in many(40, num_frames=20)
    ]
    world.gateway.ledger.ledger.put_comparisons(records)
    with serving(world) as address:
        yield CommandLine(address, folder)


def test_the_report_is_printed_as_tables(reported: CommandLine) -> None:
    run = reported()
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("aks shares ")
    for part in ("36 comparisons", "Relevance", "Cost per answer", "Failures", "What happens at"):
        assert part in run.stdout


def test_the_document_is_printed_as_it_came(reported: CommandLine) -> None:
    run = reported("--json", "--sampler", "aks")
    assert json.loads(run.stdout)["num_comparisons"] == 36


def test_the_page_is_written_to_a_file(reported: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    run = reported("--html", str(path), "--since", "7d")
    assert run.returncode == 0, run.stderr
    assert "Open it in a browser" in run.stdout
    assert path.read_text(encoding="utf-8").count("<img") == 48


def test_without_comparisons_the_way_to_get_some_is_said(reported: CommandLine) -> None:
    run = reported("--since", "1h")
    assert run.stdout.startswith("No comparison was made in this time.")
    assert "video.sampler.shadow_rate" in run.stdout


def test_what_is_wrong_is_one_line(reported: CommandLine, tmp_path: Path) -> None:
    runs = [
        reported("--since", "yesterday"),
        reported("--sampler", "ask"),
        reported("--json", "--html", "x.html"),
        reported("--html", str(tmp_path / "none" / "x.html")),
    ]
    said = ["write 90m, 24h or 7d", "GET /v1/samplers", "ask for one of them", "cannot be written"]
    for run, text in zip(runs, said, strict=True):
        assert (run.returncode, run.stdout) == (1, "")
        assert text in run.stderr


def test_a_question_cannot_steer_the_terminal() -> None:
    sides = (side("uniform", [1]), side("aks", [200]))
    steering = "\x1b[2J[red]what\x07 is\nthis?" + "x" * 2000
    report = build_report([comparison(1, *sides, question=steering)], SCOPE)
    with console.capture() as captured:
        show_report(report)
    printed = captured.get()
    assert "\x1b[2J" not in printed
    assert "\x07" not in printed
    assert "[red]what" in printed
    assert printed.count("x") < 400


def test_language_models_and_further_pairs_have_tables_of_their_own() -> None:
    bolt = comparison(900, side("uniform", [1, 2]), side("bolt", [3, 4]))
    with console.capture() as captured:
        show_report(build_report([*many(60), bolt], SCOPE))
    printed = captured.get()
    assert "By language model" in printed
    assert "bolt in the shadow of uniform: differences" in printed
