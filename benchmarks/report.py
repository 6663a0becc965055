"""Appends what a benchmark measured to docs/performance.md, with the machine and the date."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
CPU_INFO = Path("/proc/cpuinfo")


def append_result(title: str, lines: Sequence[str]) -> None:
    """Print the result and add it as a section of the page."""
    section = "\n".join([f"## {title}", "", f"{_machine()}, {_today()}.", "", *lines, ""])
    print(section)
    with PAGE.open("a", encoding="utf-8") as page:
        page.write(f"\n{section}")


def _machine() -> str:
    memory_gib = psutil.virtual_memory().total / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB"


def _processor() -> str:
    for line in CPU_INFO.read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
