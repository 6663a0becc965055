"""Sizes of files and functions, and where everything may be caught."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.source_tree import SERVICE_PACKAGES, parsed, python_files

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 100
ALL_FOLDERS = (*SERVICE_PACKAGES, "benchmarks", "deploy", "tests")

# Foreign code may raise anything here, or nothing stands above to catch it.
BROAD_HANDLERS = {
    "app/select_frames.py": "a sampler is foreign code; its failure must not reach the user",
    "app/api/problems.py": "outermost handler of a request",
    "app/rollout_runner.py": "outermost handler of a background task that must go on",
    "app/decoding/worker.py": "outermost handler of the decode process",
    "shadow/runner.py": "nothing stands above its thread; a comparison's failure must not spread",
    "shadow/sinks.py": "a sink is foreign code; it must not take the record from the others",
    "shadow/worker.py": "a sampler is foreign code; its failure is the result",
    "samplers/registry.py": "an outside sampler may raise anything when it is imported",
    "samplers/testing.py": "the conformance suite reports whatever an outside sampler raises",
}


def line_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Catches `Exception` or more, and does not end by raising it again."""
    caught = "BaseException" if handler.type is None else ast.unparse(handler.type)
    last = handler.body[-1]
    is_raised_again = isinstance(last, ast.Raise) and last.exc is None
    return bool({"Exception", "BaseException"} & set(_names(caught))) and not is_raised_again


def _names(caught: str) -> list[str]:
    return [name.strip() for name in caught.strip("()").split(",")]


@pytest.mark.parametrize("path", python_files(*ALL_FOLDERS), ids=str)
def test_no_file_and_no_function_is_too_long(path: Path) -> None:
    tree = parsed(path)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    too_long = {n.name: line_count(n) for n in functions if line_count(n) > MAX_FUNCTION_LINES}
    last_line = max((n.end_lineno or 0 for n in tree.body), default=0)
    assert too_long == {}
    assert last_line <= MAX_FILE_LINES


@pytest.mark.parametrize("path", python_files(*SERVICE_PACKAGES), ids=str)
def test_everything_is_caught_only_where_nothing_else_would_do(path: Path) -> None:
    handlers = [n for n in ast.walk(parsed(path)) if isinstance(n, ast.ExceptHandler)]
    broad = [handler.lineno for handler in handlers if is_broad(handler)]
    assert broad == [] or str(path) in BROAD_HANDLERS


def test_every_file_that_may_catch_everything_exists_and_does() -> None:
    catching = {
        str(path)
        for path in python_files(*SERVICE_PACKAGES)
        if any(isinstance(n, ast.ExceptHandler) and is_broad(n) for n in ast.walk(parsed(path)))
    }
    assert catching == set(BROAD_HANDLERS)
