"""What a decode worker may use, and how it dies: set at its start, before it touches the file."""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
NICENESS = 5
"""Answers to questions go before indexing when both want the processor."""


def bind_to_parent(parent_pid: int) -> None:
    """Die with the parent, however it dies (Linux). Exits at once when it is already gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        sys.exit(1)


def limit_resources(*, memory_bytes: int, timeout_s: float, threads: int) -> None:
    """Bound address space and processor time; a crash leaves no core file.

    Memory counts from here: code, libraries and their thread stacks differ between machines.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_AS, _mapped_bytes() + memory_bytes)
    _lower(resource.RLIMIT_CPU, math.ceil(timeout_s * (threads + 1)))
    os.nice(NICENESS)


def refuse_exhausted_memory(needed_bytes: int) -> None:
    """Raise MemoryError when so much more cannot be had.

    For failed calls of FFmpeg: several of its parts report a failed allocation as invalid data.
    """
    try:
        mmap.mmap(-1, needed_bytes).close()
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError from error
        raise


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, hard))


def _mapped_bytes() -> int:
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        return 0
    return int(statistics.read_text().split()[0]) * resource.getpagesize()
