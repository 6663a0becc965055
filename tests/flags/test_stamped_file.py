from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from flags.stamped_file import SETTLED_AFTER_NS, StampedFile, UnreadableFileError

LATER_NS = 10 * SETTLED_AFTER_NS


def settled_file(path: Path, *, max_bytes: int = 100) -> StampedFile:
    """Reads `path` by a clock that runs ahead, so that no file is too young to tell."""
    return StampedFile(
        path,
        max_bytes=max_bytes,
        clock_ns=lambda: LATER_NS + (path.stat().st_ctime_ns if path.exists() else 0),
    )


def test_an_untouched_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    file = settled_file(path)
    assert file.has_changed()
    assert file.read() == b"one"
    assert not file.has_changed()


def test_an_older_file_put_back_is_a_change(tmp_path: Path) -> None:
    path, backup = tmp_path / "a", tmp_path / "backup"
    path.write_bytes(b"old")
    os.utime(path, (1, 1))
    shutil.copy2(path, backup)
    path.write_bytes(b"new")
    file = settled_file(path)
    assert file.read() == b"new"
    backup.replace(path)
    assert path.stat().st_mtime == 1
    assert file.has_changed()
    assert file.read() == b"old"


def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(name.encode())
    link, fresh = tmp_path / "link", tmp_path / "fresh"
    link.symlink_to("one")
    file = settled_file(link)
    assert file.read() == b"one"
    fresh.symlink_to("two")
    fresh.replace(link)
    assert file.has_changed()
    assert file.read() == b"two"


def test_a_young_file_counts_as_changed_because_a_second_write_may_leave_no_mark(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    file = StampedFile(path, max_bytes=100)
    file.read()
    assert file.has_changed()


def test_a_removed_file_is_a_change_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    file = settled_file(path)
    file.read()
    path.unlink()
    assert file.has_changed()
    assert file.read() is None
    assert not file.has_changed()
    path.write_bytes(b"one")
    assert file.has_changed()


def test_a_file_over_the_bound_is_refused_and_stays_changed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 101)
    file = settled_file(path)
    with pytest.raises(UnreadableFileError, match="larger than 100 bytes"):
        file.read()
    assert file.has_changed()


def test_a_pipe_a_folder_and_a_link_to_itself_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "folder", "loop"):
        with pytest.raises(UnreadableFileError):
            settled_file(tmp_path / name).read()
