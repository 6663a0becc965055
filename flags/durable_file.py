"""Replaces a small file in one step that survives a crash."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

DEFAULT_MODE = 0o644
"""Other processes of the service may run under another user."""


def replace_durably(path: Path, content: bytes) -> None:
    """Write beside `path`, flush to the disk, rename into place, flush the folder.

    Readers see the old content or the new one, whole. A file that is there keeps its mode, a
    symbolic link stays and its target is replaced. Raises `OSError`; what stands then is the old
    content, unless it was the folder that could not be flushed.
    """
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_mode_of(target))
        temporary.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    # The rename itself is on the disk only once the folder is.
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return DEFAULT_MODE
