"""What runs below the test process; what other tests share (an engine, a database) among it."""

from __future__ import annotations

from collections.abc import Iterator

import psutil


def child_processes() -> frozenset[psutil.Process]:
    """Those below this one; the tracker of `multiprocessing`'s own resources is another's."""
    return frozenset(
        process
        for process, command in _children()
        if not any("resource_tracker" in part for part in command)
    )


def decode_workers() -> list[psutil.Process]:
    """Children that have become decode workers."""
    return [process for process, command in _children() if "app.decoding.worker" in command]


def _children() -> Iterator[tuple[psutil.Process, list[str]]]:
    """With their command lines; one that ends meanwhile is passed over."""
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        yield process, command
