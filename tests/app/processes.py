"""Small real processes for the tests of the guardian and the supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from app.supervise.guardian import read_stat

FAMILY = """
import os, pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
same = subprocess.Popen([sys.executable, "-c", code])
other = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
(folder / "pids.part").write_text(f"{os.getpid()} {same.pid} {other.pid}")
(folder / "pids.part").rename(folder / "pids")
time.sleep(60)
"""
"""A process, a child in its group, and a child in a session of its own; both ignore SIGTERM."""


def family_pids(folder: Path) -> list[int]:
    """Of the latest `FAMILY` that runs with this folder: itself, same group, other session."""
    assert until((folder / "pids").exists)
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def is_running(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.is_running


def until(condition: Callable[[], bool], timeout_s: float = 15.0) -> bool:
    """Whether the condition came true in time. Blocks."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True
