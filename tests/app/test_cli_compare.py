"""`framegate samplers compare`, run as users run it, against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.answer_world import QUESTION, IndexedData, build_world, serving, write_colours
from tests.app.rogue_samplers import TARGETS
from tests.app.test_cli import CommandLine, failed

COMPARE = ("samplers", "compare")


@pytest.fixture
def connected(tmp_path: Path, indexed: IndexedData) -> Iterator[CommandLine]:
    world = build_world(tmp_path / "data", indexed, extra_samplers=",".join(TARGETS))
    framegate = CommandLine(tmp_path / "data")
    with serving(world) as address:
        framegate.environment["FRAMEGATE_PORT"] = address.rpartition(":")[2]
        yield framegate


def test_a_table_is_printed_and_a_picture_written(
    connected: CommandLine, indexed: IndexedData, tmp_path: Path
) -> None:
    out = tmp_path / "compare.png"
    options = ("--samplers", "uniform,aks,raising", "--budget", "4", "--out", str(out))
    run = connected(*COMPARE, indexed.long_id, QUESTION, *options)

    assert run.returncode == 0, run.stderr
    assert "from uniform" in run.stdout
    lines = {line.split()[0]: line for line in run.stdout.splitlines() if line.strip()}
    assert "2.50 s, 7.50 s, 12.50 s, 17.50 s" in lines["uniform"]
    assert "100%" in lines["aks"]
    assert "failed: raised" in lines["raising"]
    assert "out of memory" in run.stdout
    assert out.read_bytes().startswith(b"\x89PNG")
    assert f"Wrote {out}" in run.stderr


def test_a_file_is_uploaded_and_compared_on_as_json(connected: CommandLine, tmp_path: Path) -> None:
    write_colours(tmp_path / "new.mp4", 3.0)
    out = tmp_path / "compare.svg"
    options = ("--budget", "2", "--json", "--out", str(out))
    run = connected(*COMPARE, str(tmp_path / "new.mp4"), QUESTION, *options)

    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert [sampler["id"] for sampler in document["samplers"]] == ["uniform", "aks", "bolt"]
    assert all(len(sampler["frames"]) == 2 for sampler in document["samplers"])
    assert "</svg>" in out.read_text()


def test_what_is_wrong_is_one_line(
    connected: CommandLine, indexed: IndexedData, tmp_path: Path
) -> None:
    asked = (*COMPARE, indexed.short_id, QUESTION)
    assert "ends in .png or .svg" in failed(connected(*asked, "--out", "compare.jpg"))
    assert "known: uniform" in failed(connected(*asked, "--samplers", "nonesuch"))
    assert "less than or equal to 128" in failed(connected(*asked, "--budget", "1000"))
    assert "too much for one call" in failed(connected(*COMPARE, indexed.short_id, "x" * 70_000))
    nowhere = connected(*asked, "--out", str(tmp_path / "nonesuch" / "compare.png"))
    assert nowhere.returncode == 1
    assert "cannot be written" in nowhere.stderr
