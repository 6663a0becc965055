"""Stored arrays are opened by many threads at once."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from app.stores.array_file import open_array

NUM_THREADS = 8
NUM_OPENED = 300


class Garbage:
    """Collected only by the collector, and long enough for another thread to get its turn."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns, and the collector runs, as often as they can."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(20)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("many_switches")
def test_threads_that_open_arrays_do_not_make_each_other_fail(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    rows = np.arange(320, dtype=np.float16).reshape(40, 8)
    np.save(path, rows)

    def open_many(depth: int) -> int:
        if depth:
            return open_many(depth - 1)
        num_right = 0
        for _ in range(NUM_OPENED):
            Garbage()
            num_right += open_array(path, mmap_mode="r").shape == rows.shape
        return num_right

    with ThreadPoolExecutor(NUM_THREADS) as threads:
        right = list(threads.map(open_many, range(0, 7 * NUM_THREADS, 7)))
    assert right == [NUM_OPENED] * NUM_THREADS


def test_an_array_is_read_whole_or_mapped_read_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(6))
    mapped = open_array(path, mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.writeable
    assert not isinstance(open_array(path), np.memmap)
    assert open_array(path).tolist() == mapped.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_file_that_is_absent_or_no_array_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(FileNotFoundError):
        open_array(tmp_path / "nonesuch.npy")
    with pytest.raises(ValueError, match="pickle"):
        open_array(tmp_path / "text.npy")
