"""Prints what a benchmark measured and appends it to docs/performance.md."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

PERFORMANCE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
HEADER = """# Performance

Each section is one run of one script under `benchmarks/`; newer runs stand below older ones. Ratios
are of quantities taken in the same run on the same machine; other work on it moves single times
more than ratios.
"""


def append_result(title: str, lines: list[str]) -> None:
    """Print `lines` (Markdown) and append them under `title`, with machine and date."""
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    section = "\n".join([f"## {title}", "", f"{when}, {machine()}.", "", *lines])
    print(section)
    text = PERFORMANCE.read_text(encoding="utf-8") if PERFORMANCE.is_file() else HEADER
    PERFORMANCE.write_text(f"{text.rstrip()}\n\n{section}\n", encoding="utf-8")


def machine() -> str:
    """Processor, cores, memory and Python of this machine; nothing that names it."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores of {_processor()}, {gib:.0f} GiB, Python {platform.python_version()}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
