"""What runs below the test process; what other tests share (an engine, a database) among it."""

from __future__ import annotations

import psutil


def child_processes() -> frozenset[psutil.Process]:
    """Those below this one; the tracker of `multiprocessing`'s own resources is another's."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if not any("resource_tracker" in part for part in command):
            found.add(process)
    return frozenset(found)
