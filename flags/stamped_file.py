"""A small file that is looked at before every use and read again only when it changed."""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SETTLED_AFTER_NS = 2_500_000_000
"""A file that changed more recently than this is read again at every look, because a second write
in the same tick of the file system's clock (milliseconds, 2 s on FAT) leaves inode, ctime and size
as they were."""


class UnreadableFileError(Exception):
    """The file exists but cannot be used. The text says why."""


class FileStamp(NamedTuple):
    """What changes whenever a file is written, replaced or put back. The mtime is not part of it:
    `mv`, `cp -p` and `rsync -t` put older files back with older times."""

    device: int
    inode: int
    ctime_ns: int
    size: int


class StampedFile:
    """Tells a changed file from an unchanged one with one `stat` (about 2 µs).

    Symbolic links are followed, so a swapped link is a changed file. Not locked: callers that share
    one between threads hold their own lock around `read`.
    """

    def __init__(
        self, path: Path, *, max_bytes: int, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._clock_ns = clock_ns
        self._stamp: FileStamp | None = None
        self._is_settled = False

    def has_changed(self) -> bool:
        """Whether `read` must be called: never read, changed since, or too young to tell."""
        return not self._is_settled or self._look() != self._stamp

    def read(self) -> bytes | None:
        """The whole content, or None where there is no such file.

        Raises `UnreadableFileError` for a file that is too large, not a regular file or not
        readable; it counts as changed until it can be read, because a refusal such as "too many
        open files" passes.
        """
        self._is_settled = False
        now_ns = self._clock_ns()
        try:
            content, self._stamp = self._read_with_stamp()
        except FileNotFoundError:
            self._stamp, self._is_settled = None, True
            return None
        except OSError as exc:
            raise UnreadableFileError(exc.strerror or str(exc)) from exc
        self._is_settled = now_ns - self._stamp.ctime_ns > SETTLED_AFTER_NS
        return content

    def _read_with_stamp(self) -> tuple[bytes, FileStamp]:
        # The stamp is that of the open file: the path may name another one by now.
        with io.FileIO(self.path, opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableFileError("not a regular file")
            if status.st_size > self._max_bytes:
                raise UnreadableFileError(f"larger than {self._max_bytes} bytes")
            return file.read(status.st_size), _stamp(status)

    def _look(self) -> FileStamp | None:
        try:
            return _stamp(self.path.stat())
        except OSError:
            # Gone or out of reach: unequal to any stamp of a file, so that `read` finds out which.
            return None


def _open_without_waiting(name: str, flags: int) -> int:
    # Opening a named pipe would wait for its writer.
    return os.open(name, flags | os.O_NONBLOCK)


def _stamp(status: os.stat_result) -> FileStamp:
    return FileStamp(status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size)
