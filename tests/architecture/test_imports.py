"""Who may import what, and who may read the environment."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source_tree import (
    PYPROJECT,
    ROOT,
    SERVICE_PACKAGES,
    imported_modules,
    parsed,
    python_files,
)

MODEL_RUNTIMES = ("torch", "torchvision", "vllm", "transformers", "open_clip")
# Both run in processes of their own; the gateway imports neither's model code.
MODEL_FOLDERS = ("app/encoders/", "app/generate/")

# One line that breaks each contract of pyproject.toml, by the contract's position there.
SEEDED_VIOLATIONS = (
    ("samplers/seeded_upward.py", "import app.errors"),
    ("app/stores/seeded_upward.py", "import app.pipeline"),
    ("samplers/seeded_runtime.py", "import torch"),
    ("shadow/seeded_provider.py", "import openfeature.api"),
    ("app/api/seeded_runtime.py", "import torch"),
)


def run_import_linter(folder: Path) -> tuple[int, str]:
    """Exit status and output of import-linter on the project in `folder`."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"],
        cwd=folder,
        # Wide enough that no contract's name is broken across lines.
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def top_level(module: str) -> str:
    return module.partition(".")[0]


def test_every_import_contract_is_kept() -> None:
    status, output = run_import_linter(ROOT)
    assert status == 0, output


def test_every_import_contract_notices_a_line_that_breaks_it(tmp_path: Path) -> None:
    for package in SERVICE_PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file, line in SEEDED_VIOLATIONS:
        (tmp_path / file).write_text(line + "\n")
    status, output = run_import_linter(tmp_path)
    broken = re.findall(r"^(.+) BROKEN", output, re.MULTILINE)
    assert status == 1
    assert broken == [
        contract["name"] for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
    ]


@pytest.mark.parametrize("path", python_files(*SERVICE_PACKAGES), ids=str)
def test_model_runtimes_are_imported_only_where_models_run(path: Path) -> None:
    runtimes = {top_level(module) for module in imported_modules(path)} & set(MODEL_RUNTIMES)
    assert not runtimes or str(path).startswith(MODEL_FOLDERS)


@pytest.mark.parametrize("path", python_files(*SERVICE_PACKAGES), ids=str)
def test_openfeature_is_imported_only_in_flags(path: Path) -> None:
    is_importing = "openfeature" in {top_level(module) for module in imported_modules(path)}
    assert not is_importing or path.parts[0] == "flags"


def reads_of_the_environment(path: Path) -> list[int]:
    """Line numbers of `os.environ`, `os.getenv` and imports of either."""
    names = {"environ", "environb", "getenv", "getenvb"}
    found = []
    expressions_and_statements = (
        n for n in ast.walk(parsed(path)) if isinstance(n, ast.expr | ast.stmt)
    )
    for node in expressions_and_statements:
        is_attribute = (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (node.value.id, node.attr) in {("os", name) for name in names}
        )
        is_import = (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and bool(names & {alias.name for alias in node.names})
        )
        if is_attribute or is_import:
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", python_files(*SERVICE_PACKAGES), ids=str)
def test_the_environment_is_read_only_in_settings(path: Path) -> None:
    assert path == Path("app/settings.py") or reads_of_the_environment(path) == []


def test_settings_is_seen_to_read_the_environment() -> None:
    assert reads_of_the_environment(Path("app/settings.py"))
