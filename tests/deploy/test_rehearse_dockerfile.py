"""deploy/rehearse_dockerfile.py reads a Dockerfile as Docker does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.architecture.source_tree import ROOT


@pytest.fixture(scope="module")
def rehearsal() -> ModuleType:
    path = ROOT / "deploy" / "rehearse_dockerfile.py"
    spec = importlib.util.spec_from_file_location("rehearse_dockerfile", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_continued_lines_are_one_instruction_and_comments_are_none(rehearsal: ModuleType) -> None:
    text = "FROM debian\n# why\nRUN one \\\n    # inside\n    && two\n\nuser 7\n"
    assert [(i.word, i.argument) for i in rehearsal.instructions(text)] == [
        ("FROM", "debian"),
        ("RUN", "one && two"),
        ("USER", "7"),
    ]


def test_an_environment_variable_may_extend_the_path(rehearsal: ModuleType, tmp_path: Path) -> None:
    image = rehearsal.Image(tmp_path, ())
    image.follow(rehearsal.Instruction("ENV", "PATH=/srv/bin:$PATH NAME=value"))
    assert image.env["PATH"] == f"/srv/bin:{rehearsal.BASE_PATH}"
    assert image.env["NAME"] == "value"


def test_copying_leaves_out_what_the_ignore_file_names(
    rehearsal: ModuleType, tmp_path: Path
) -> None:
    image = rehearsal.Image(tmp_path, ("setup.py", "__pycache__"))
    image.follow(rehearsal.Instruction("WORKDIR", "/srv"))
    image.follow(rehearsal.Instruction("COPY", "deploy ./deploy"))
    copied = {path.name for path in (tmp_path / "srv" / "deploy").iterdir()}
    present = {path.name for path in (ROOT / "deploy").iterdir()}
    assert {"setup.py", "rehearse_dockerfile.py"} <= present
    assert copied == present - {"setup.py", "__pycache__"}


def test_every_instruction_of_the_dockerfile_is_one_that_the_rehearsal_knows(
    rehearsal: ModuleType,
) -> None:
    words = {i.word for i in rehearsal.instructions((ROOT / "Dockerfile").read_text())}
    only_in_a_container = {"FROM", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD"}
    assert words - only_in_a_container == {"RUN", "COPY", "USER", "WORKDIR", "ENV"}
