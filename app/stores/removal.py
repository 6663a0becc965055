"""Taking things out of the data folder without a moment in which they are half there."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from app.stores.layout import DataLayout


def discard(path: Path, layout: DataLayout) -> None:
    """Remove a file or folder: after one rename nobody finds it; who has it open reads on.

    Without effect when nothing is there. Raises OSError.
    """
    doomed = layout.temporary / f"discarded-{uuid.uuid4().hex}"
    try:
        path.rename(doomed)
    except FileNotFoundError:
        return
    _delete(doomed)


def empty_folder(folder: Path) -> None:
    """Make the folder, or remove all that is in it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
