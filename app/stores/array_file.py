"""Stored arrays, opened by many threads at once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

# numpy reads a header with `ast.literal_eval`, and Python before 3.11.8 counts the depth of all
# threads' syntax trees in one place: a thread that is switched to in the middle, when a garbage
# collection runs a finaliser, makes the other fail with `SystemError` (python/cpython#106905).
_HEADERS = threading.RLock()


def open_array(path: Path, mmap_mode: Literal["r"] | None = None) -> npt.NDArray[Any]:
    """The array of an `.npy` file, memory-mapped read-only with `mmap_mode="r"`.

    Raises OSError, ValueError and EOFError as `numpy.load` does.
    """
    with _HEADERS:
        stored: npt.NDArray[Any] = np.load(path, mmap_mode=mmap_mode)
    return stored
