"""Raises the flag file's alarm also while nobody asks a question."""

from __future__ import annotations

import contextlib

import anyio
from watchfiles import awatch

from flags.provider import FlagFile


async def watch(flag_file: FlagFile, *, idle_look_s: float = 5.0) -> None:
    """Look at the flag file whenever its folder changes, until cancelled.

    Decisions do not need it: each looks at the file itself. It watches the folder, because an
    atomic rename replaces the file that a watch on the file would hold on to, and looks every
    `idle_look_s` seconds without any event: a symbolic link into another folder, a network file
    system and a folder that does not exist yet send none.
    """
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_look_on_events, flag_file, idle_look_s, stop)
        try:
            await anyio.sleep_forever()
        finally:
            # Cancelling alone would wait for the watching thread, which sleeps `idle_look_s`.
            stop.set()


async def _look_on_events(flag_file: FlagFile, idle_look_s: float, stop: anyio.Event) -> None:
    while True:
        flag_file.refresh()
        # No such folder yet, or no watch to be had: look at intervals, and try again.
        with contextlib.suppress(OSError):
            async for _ in awatch(
                flag_file.path.parent,
                debounce=50,
                step=10,
                stop_event=stop,
                rust_timeout=round(idle_look_s * 1000),
                yield_on_timeout=True,
                recursive=False,
                watch_filter=None,
            ):
                flag_file.refresh()
        await anyio.sleep(idle_look_s)
