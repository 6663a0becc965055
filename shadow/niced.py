"""Becomes a process that yields to everyone and dies with its parent, then runs a module's `serve`.

Run by file path: `python -P niced.py CONNECTION_FD PARENT_PID MODULE`. It imports the standard
library alone until its priority is lowered, so that even its start costs the gateway nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

PR_SET_PDEATHSIG = 1
NICENESS = 19
KILLED_FIRST = "1000"


def yield_to_everyone() -> None:
    """Lowest priority for this thread and those that it starts; first victim when memory ends."""
    os.nice(NICENESS)
    # Where the kernel has it, an idle task is preempted at once by any other that wakes up.
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(KILLED_FIRST)


def die_with(parent_pid: int) -> None:
    """However the parent ends, also by kill -9 (Linux; elsewhere the connection's end tells)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        sys.exit(1)


def main() -> None:
    descriptor, parent_pid, module = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    die_with(parent_pid)
    yield_to_everyone()
    connection = Connection(descriptor)
    # The gateway's own path: what it can import, this process can import.
    sys.path[:] = connection.recv()
    importlib.import_module(module).serve(connection)


if __name__ == "__main__":
    main()
