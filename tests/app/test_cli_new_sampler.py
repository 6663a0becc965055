"""`framegate samplers new`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from app.cli_client import CliError
from app.cli_new_sampler import MAX_NAME_CHARS, checked_names, write_package
from samplers.registry import BUILT_IN
from tests.app.test_cli import CommandLine
from tests.architecture.source_tree import ROOT

BIN = Path(sys.executable).parent
SHORTEST, LONGEST = "a", "b" * MAX_NAME_CHARS


def written(folder: Path, name: str) -> Path:
    write_package(folder / name, checked_names(name, taken=()))
    return folder / name


def found_by(program: str, *arguments: str, cwd: Path) -> str:
    """What a checker of source code has to say; empty when it is content."""
    done = subprocess.run(
        [BIN / program, *arguments],
        cwd=cwd,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_command_writes_a_package_and_says_what_comes_next(tmp_path: Path) -> None:
    run = CommandLine(tmp_path / "data")("samplers", "new", "far-peaks", "--dir", str(tmp_path))
    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]

    assert run.returncode == 0, run.stderr
    assert sorted(files) == [
        "far-peaks/README.md",
        "far-peaks/pyproject.toml",
        "far-peaks/src/framegate_far_peaks.py",
        "far-peaks/tests/test_far_peaks.py",
    ]
    for step in (
        "pip install --no-deps -e .",
        "pytest",
        "samplers compare",
        "rollout start far-peaks",
    ):
        assert step in run.stdout


def test_the_package_declares_its_entry_point_and_needs_framegate_and_numpy_alone(
    tmp_path: Path,
) -> None:
    project = tomllib.loads((written(tmp_path, "far-peaks") / "pyproject.toml").read_text())
    needed = [Requirement(text).name for text in project["project"]["dependencies"]]

    assert needed == ["framegate", "numpy"]
    assert project["project"]["entry-points"]["framegate.samplers"] == {
        "far-peaks": "framegate_far_peaks:FarPeaksSampler"
    }


@pytest.mark.parametrize("name", [SHORTEST, "far-peaks", LONGEST])
def test_the_code_has_no_lint_and_is_formatted(tmp_path: Path, name: str) -> None:
    package = written(tmp_path, name)
    ours = ("--config", str(ROOT / "pyproject.toml"), "--no-cache", ".")

    assert found_by("ruff", "check", "--no-cache", ".", cwd=package) == ""
    assert found_by("ruff", "check", *ours, cwd=package) == ""
    assert found_by("ruff", "format", "--check", *ours, cwd=package) == ""


def test_the_code_is_typed_strictly(tmp_path: Path) -> None:
    package = written(tmp_path, "far-peaks")
    cache = ("--cache-dir", str(tmp_path / "cache"))
    assert found_by("mypy", *cache, cwd=package) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("aks", "of Framegate's own"),
        ("uniform", "of Framegate's own"),
        ("off", "something else"),
        ("mine", "installed already"),
        ("", "cannot be"),
        ("Peaks", "cannot be"),
        ("2peaks", "cannot be"),
        ("peaks-", "cannot be"),
        ("far--peaks", "cannot be"),
        ("aks@t1=0.2", "cannot be"),
        ("../peaks", "cannot be"),
        ("spitzen\u00fc", "cannot be"),
        (LONGEST + "b", "cannot be"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_with_the_reason(name: str, words: str) -> None:
    with pytest.raises(CliError, match=words):
        checked_names(name, taken={"mine", *BUILT_IN})


WORDS = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from("-_"))
def test_every_name_gives_a_module_a_class_and_a_distribution(words: list[str], joint: str) -> None:
    names = checked_names(joint.join(words)[:MAX_NAME_CHARS], taken={"off", *BUILT_IN})
    assert names.module.isidentifier()
    assert names.class_name.isidentifier()
    assert Requirement(names.distribution).name == names.distribution
    for text in names.files().values():
        assert "$" not in text


def test_what_is_there_already_is_left_alone(tmp_path: Path) -> None:
    mine = written(tmp_path, "peaks") / "src" / "framegate_peaks.py"
    mine.write_text("mine")
    with pytest.raises(CliError, match="exists already; nothing was written"):
        written(tmp_path, "peaks")
    assert mine.read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CliError, match="cannot be written"):
        written(tmp_path / "file", "peaks")
