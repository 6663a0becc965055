"""The flag file as something that a rollout changes: one editor at a time, in one durable step."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flags.durable_file import replace_durably
from flags.flag_edit import UneditableFlagsError
from flags.provider import MAX_FLAG_FILE_BYTES
from flags.stamped_file import StampedFile, UnreadableFileError


class FlagFileEditor:
    """Reads and replaces one flag file. Shared by threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other editor of this file, in any process of the machine, out.

        Who edits by hand takes no part in it. The lock goes with the process that holds it. Raises
        `UneditableFlagsError` where the folder cannot be written.
        """
        lock_path = self._path.with_name(f".{self._path.name}.lock")
        with self._lock:
            try:
                descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as exc:
                raise _unwritable(self._path, exc) from exc
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)

    def read(self) -> bytes:
        """The whole content. Raises `UneditableFlagsError`."""
        try:
            content = StampedFile(self._path, max_bytes=MAX_FLAG_FILE_BYTES).read()
        except UnreadableFileError as exc:
            raise UneditableFlagsError(f"{self._path} cannot be read: {exc}.") from exc
        if content is None:
            raise UneditableFlagsError(f"There is no flag file {self._path}. Put one there first.")
        return content

    def write(self, content: bytes) -> None:
        """Replace the file atomically and durably. Raises `UneditableFlagsError`; the digest of the
        content then tells whether it was replaced."""
        try:
            replace_durably(self._path, content)
        except OSError as exc:
            raise _unwritable(self._path, exc) from exc


def _unwritable(path: Path, error: OSError) -> UneditableFlagsError:
    return UneditableFlagsError(
        f"{path} cannot be written ({error.strerror}). Let the service write into its folder."
    )
