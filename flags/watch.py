"""Raises the flag file's alarm also while nobody asks a question."""

from __future__ import annotations

import anyio
from watchfiles import awatch

from flags.provider import FlagFile

IDLE_LOOK_MS = 5_000
"""The file is looked at this often without any event, for changes that the folder does not tell of:
a symbolic link into another folder, a network file system, a folder that does not exist yet."""


async def watch(flag_file: FlagFile) -> None:
    """Look at the flag file whenever its folder changes, until cancelled.

    Decisions do not need it: each looks at the file itself. It watches the folder, because an
    atomic rename replaces the file that a watch on the file would hold on to.
    """
    folder = flag_file.path.parent
    while True:
        flag_file.refresh()
        if not folder.is_dir():
            await anyio.sleep(IDLE_LOOK_MS / 1000)
            continue
        async for _ in awatch(
            folder,
            debounce=50,
            step=10,
            rust_timeout=IDLE_LOOK_MS,
            yield_on_timeout=True,
            recursive=False,
            watch_filter=None,
        ):
            flag_file.refresh()
            if not folder.is_dir():
                break
