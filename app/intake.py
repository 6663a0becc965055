"""Stage 1, intake: bytes that arrive -> bytes on disk, named by their sha256.

An upload goes to a temporary file while it is hashed, and gets its name by a rename once it is
whole and synced: a file in the store is a whole file. The same content again finds the file there.
Nothing here trusts a file name or a media type that the client states.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import shutil
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.errors import (
    BusyError,
    EmptyUploadError,
    StorageFullError,
    UnavailableError,
    UploadTimeoutError,
    VideoTooLargeError,
)
from app.settings import Settings
from app.stores.catalogue import Catalogue
from app.stores.layout import DataLayout
from app.stores.removal import discard, empty_folder
from observability.names import Stage
from observability.stages import stage

BLOCK_BYTES = 64 * 1024
"""Written at once, and the least that has to arrive within the idle timeout (2 kB/s by default):
one byte every half minute must not hold one of the few places."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    max_bytes: int
    idle_timeout_s: float
    max_concurrent: int
    min_free_disk_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> IntakeLimits:
        return cls(
            max_bytes=settings.max_upload_bytes,
            idle_timeout_s=settings.upload_idle_timeout_s,
            max_concurrent=settings.max_concurrent_uploads,
            min_free_disk_bytes=settings.min_free_disk_bytes,
        )


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """`is_new`: this tenant did not own this content before."""

    video_id: str
    size_bytes: int
    is_new: bool


class Intake:
    """Takes uploads in and takes videos out. `on_bytes` counts what was received."""

    def __init__(
        self,
        layout: DataLayout,
        catalogue: Catalogue,
        limits: IntakeLimits,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._layout = layout
        self._catalogue = catalogue
        self._limits = limits
        self._on_bytes = on_bytes
        self._num_uploads = 0
        # A file and its owners change together: else a delete could take the bytes of an upload of
        # the same content that has just been promised to somebody.
        self._publishing = threading.Lock()

    def check_size(self, declared_bytes: int | None) -> None:
        """Raises VideoTooLargeError for a stated size above the limit, StorageFullError."""
        if declared_bytes is not None and declared_bytes > self._limits.max_bytes:
            raise _too_large(self._limits.max_bytes)
        _check_room(self._layout.temporary, self._limits.min_free_disk_bytes, declared_bytes or 0)

    async def intake(self, tenant: str, chunks: AsyncIterator[bytes]) -> IntakeResult:
        """Store one upload; the tenant owns it and the catalogue says so when this returns.

        Raises BusyError, EmptyUploadError, VideoTooLargeError (as soon as one byte too many has
        come), UploadTimeoutError, StorageFullError, UnavailableError where the disk refuses; what
        `chunks` raises passes through. In each of these cases, and when the caller is cancelled,
        nothing is left on disk.
        """
        if self._num_uploads >= self._limits.max_concurrent:
            raise BusyError(f"{self._num_uploads} uploads are being received already.")
        self._num_uploads += 1
        try:
            with stage(Stage.INTAKE) as timer:
                result = await self._receive(tenant, chunks)
                timer.set("video_id", result.video_id)
                timer.set("size_bytes", result.size_bytes)
                return result
        finally:
            self._num_uploads -= 1

    async def remove(self, tenant: str, video_id: str) -> bool:
        """Take the video from the tenant; with its last owner, bytes and derived data go.

        True when they went. Raises VideoNotFoundError, VideoBusyError.
        """
        return await asyncio.to_thread(self._remove, tenant, video_id)

    def recover(self) -> None:
        """At start-up: remove what a former process left half done. Raises OSError."""
        empty_folder(self._layout.temporary)
        known = self._catalogue.video_ids()
        for path in [
            *self._layout.root.glob("videos/??/*"),
            *self._layout.root.glob("derived/??/*"),
        ]:
            if path.name not in known:
                logger.warning("removing data of no video: %s", path.name)
                discard(path, self._layout)

    async def _receive(self, tenant: str, chunks: AsyncIterator[bytes]) -> IntakeResult:
        spool = _Spool(self._layout.temporary, self._limits)
        try:
            async for block in _blocks(chunks, self._limits.idle_timeout_s):
                self._on_bytes(len(block))
                await asyncio.to_thread(spool.write, block)
            if spool.size_bytes == 0:
                raise EmptyUploadError
            return await asyncio.to_thread(self._publish, tenant, spool)
        finally:
            # Shielded: a client that left, or a shutdown, cancels this task.
            await asyncio.shield(asyncio.to_thread(spool.discard))

    def _publish(self, tenant: str, spool: _Spool) -> IntakeResult:
        video_id = spool.finish()
        final = self._layout.video_bytes(video_id)
        with self._publishing:
            # Also over a file that is there: it has the same content, unless the disk damaged it.
            _rename_durably(spool.path, final)
            is_new = self._catalogue.add_video(tenant, video_id, spool.size_bytes)
        return IntakeResult(video_id, spool.size_bytes, is_new)

    def _remove(self, tenant: str, video_id: str) -> bool:
        with self._publishing:
            is_last = self._catalogue.remove_owner(tenant, video_id)
            if is_last:
                discard(self._layout.derived(video_id), self._layout)
                discard(self._layout.video_bytes(video_id), self._layout)
        return is_last


class _Spool:
    """A temporary file that hashes what is written. Calls come from threads, one at a time."""

    def __init__(self, folder: Path, limits: IntakeLimits) -> None:
        self.path = folder / f"upload-{uuid.uuid4().hex}"
        self.size_bytes = 0
        self._limits = limits
        self._digest = hashlib.sha256()
        # `discard` may come while a cancelled caller's last write is still running.
        self._lock = threading.Lock()
        with _storage_errors():
            self._file = self.path.open("xb", buffering=0)

    def write(self, block: bytes) -> None:
        """Raises VideoTooLargeError before a byte beyond the limit is written, StorageFullError."""
        with self._lock, _storage_errors():
            if self._file.closed:
                return
            self.size_bytes += len(block)
            if self.size_bytes > self._limits.max_bytes:
                raise _too_large(self._limits.max_bytes)
            _check_room(self.path.parent, self._limits.min_free_disk_bytes, len(block))
            self._digest.update(block)
            remaining = memoryview(block)
            while remaining:
                remaining = remaining[self._file.write(remaining) :]

    def finish(self) -> str:
        """Sync and close; the hex sha256 of all that was written."""
        with self._lock, _storage_errors():
            os.fsync(self._file.fileno())
            self._file.close()
            return self._digest.hexdigest()

    def discard(self) -> None:
        """Leave nothing behind; without effect once the file has its name."""
        with self._lock:
            self._file.close()
            self.path.unlink(missing_ok=True)


async def _blocks(chunks: AsyncIterator[bytes], idle_timeout_s: float) -> AsyncIterator[bytes]:
    """Whole blocks (the last may be shorter), each within the timeout."""
    is_open = True
    while is_open:
        block = bytearray()
        try:
            async with asyncio.timeout(idle_timeout_s):
                while is_open and len(block) < BLOCK_BYTES:
                    chunk = await anext(chunks, None)
                    is_open = chunk is not None
                    block += chunk or b""
        except TimeoutError as exc:
            raise UploadTimeoutError(
                f"Less than {BLOCK_BYTES} bytes came in {idle_timeout_s:g} s."
            ) from exc
        if block:
            yield bytes(block)


def _too_large(max_bytes: int) -> VideoTooLargeError:
    return VideoTooLargeError(f"The limit is {max_bytes} bytes.")


def _check_room(folder: Path, min_free_bytes: int, needed_bytes: int) -> None:
    with _storage_errors():
        if shutil.disk_usage(folder).free < min_free_bytes + needed_bytes:
            raise StorageFullError("The service's disk is nearly full.")


@contextlib.contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UnavailableError(f"The video cannot be stored ({exc.strerror}).") from exc
        raise StorageFullError("The service's disk is full.") from exc


def _rename_durably(source: Path, target: Path) -> None:
    with _storage_errors():
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
