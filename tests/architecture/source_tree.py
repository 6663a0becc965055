"""The project's own source files and what stands in them, for the rules of this folder."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SERVICE_PACKAGES = ("app", "flags", "observability", "samplers", "shadow")


def python_files(*folders: str) -> list[Path]:
    """Every Python file below the folders, relative to the project's root, sorted."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT) for path in found)


def parsed(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=str(path))


def imported_modules(path: Path) -> set[str]:
    """Dotted names of the modules that a file imports, anywhere in it."""
    return set(_imported_modules(parsed(path)))


def _imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
