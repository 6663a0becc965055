"""The feature store: one row of embedding and tokens for every candidate, per encoder.

Two files a video and encoder (`DataLayout.embeddings`, `DataLayout.tokens`), both `.npy`, float16.
They are written under a temporary name and renamed, embeddings last: a reader that finds the
embeddings finds everything.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from app.stores.array_file import open_array
from app.stores.layout import DataLayout
from samplers.contract import FeaturesMissingError, FloatArray

BLOCK_BYTES = 4 * 1024 * 1024
"""float32 bytes of one block of a blockwise product: small enough to stay in the CPU's cache."""
NORM_TOLERANCE = 2e-3
"""Rounding a unit row to float16 moves its norm by less than this."""


class InvalidFeaturesError(ValueError):
    """An encoder handed over rows that are not finite, not normalised or of the wrong shape."""


class FeatureWriterBusyError(RuntimeError):
    """Another writer holds this key: there is one writer a key."""


@dataclass(frozen=True, slots=True)
class FeatureKey:
    """One video in one embedding space."""

    video_id: str
    fps: float
    encoder_id: str


@dataclass(frozen=True, slots=True)
class FeatureShape:
    """What one candidate's row looks like; of the encoder."""

    embedding_dim: int
    """D."""
    tokens_per_picture: int
    """P."""
    token_dim: int
    """D_v."""


def unit_rows(rows: npt.NDArray[np.float16]) -> FloatArray:
    """float32 rows of norm 1: undoes what the rounding to float16 did to their norms."""
    wide = rows.astype(np.float32)
    wide /= np.sqrt(np.einsum("cd,cd->c", wide, wide))[:, None]
    return wide


class FeatureStore:
    """Reads features; keeps float32 embeddings in a cache bounded in bytes. Shared by threads."""

    def __init__(self, layout: DataLayout, cache_bytes: int) -> None:
        self._layout = layout
        self._cache_bytes = cache_bytes
        self._cache: OrderedDict[FeatureKey, FloatArray] = OrderedDict()
        self._used_bytes = 0
        self._lock = threading.Lock()

    @property
    def cached_bytes(self) -> int:
        """Bytes that the cache holds now; never above its bound."""
        return self._used_bytes

    def has(self, key: FeatureKey) -> bool:
        """The video is wholly encoded in this embedding space."""
        return self._embeddings_path(key).is_file()

    def embeddings(self, key: FeatureKey) -> FloatArray:
        """float32 `[C, D]`, L2-normalised, read-only. Raises `FeaturesMissingError`."""
        cached = self._cached(key)
        if cached is not None:
            return cached
        wide = unit_rows(self._stored(self._embeddings_path(key)))
        wide.flags.writeable = False
        self._keep(key, wide)
        return wide

    def fits_cache(self, key: FeatureKey) -> bool:
        """`embeddings` keeps what it returns. Raises `FeaturesMissingError`."""
        return self._stored(self._embeddings_path(key)).size * 4 <= self._cache_bytes

    def rows(self, key: FeatureKey, rows: Sequence[int]) -> FloatArray:
        """float32 `[len(rows), D]` of these candidate rows, L2-normalised; the cache is left alone.

        Raises `FeaturesMissingError`.
        """
        return unit_rows(self._stored(self._embeddings_path(key))[np.asarray(rows, dtype=np.int64)])

    def scores(self, key: FeatureKey, query_vector: FloatArray) -> FloatArray:
        """float32 `[C]` cosines with `query_vector` `[D]`, read-only.

        One product; in blocks when the video's embeddings do not fit the cache. Raises
        `FeaturesMissingError`.
        """
        cached = self._cached(key)
        if cached is None:
            if not self.fits_cache(key):
                return _scores_in_blocks(self._stored(self._embeddings_path(key)), query_vector)
            cached = self.embeddings(key)
        scores = cached @ query_vector
        scores.flags.writeable = False
        return scores

    def tokens(self, key: FeatureKey, rows: Sequence[int]) -> FloatArray:
        """float32 `[len(rows), P, D_v]` of these candidate rows. Raises `FeaturesMissingError`."""
        path = self._layout.tokens(key.video_id, key.fps, key.encoder_id)
        stored = self._stored(path)
        tokens: FloatArray = stored[np.asarray(rows, dtype=np.int64)].astype(np.float32)
        return tokens

    def writer(self, key: FeatureKey, num_rows: int, shape: FeatureShape) -> FeatureWriter:
        """The one writer of this key. Raises `FeatureWriterBusyError`, OSError."""
        return FeatureWriter(self._layout, key, num_rows, shape)

    def forget(self, video_id: str) -> None:
        """Drop a deleted video's embeddings from memory."""
        with self._lock:
            for key in [key for key in self._cache if key.video_id == video_id]:
                self._used_bytes -= self._cache.pop(key).nbytes

    def _embeddings_path(self, key: FeatureKey) -> Path:
        return self._layout.embeddings(key.video_id, key.fps, key.encoder_id)

    def _cached(self, key: FeatureKey) -> FloatArray | None:
        with self._lock:
            found = self._cache.get(key)
            if found is not None:
                self._cache.move_to_end(key)
            return found

    def _keep(self, key: FeatureKey, wide: FloatArray) -> None:
        if wide.nbytes > self._cache_bytes:
            return
        with self._lock:
            replaced = self._cache.pop(key, None)
            self._used_bytes += wide.nbytes - (0 if replaced is None else replaced.nbytes)
            self._cache[key] = wide
            while self._used_bytes > self._cache_bytes:
                _, evicted = self._cache.popitem(last=False)
                self._used_bytes -= evicted.nbytes

    @staticmethod
    def _stored(path: Path) -> npt.NDArray[np.float16]:
        """The file as a memory map. A file that is absent or no float16 array counts as missing."""
        try:
            stored: npt.NDArray[np.float16] = open_array(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as exc:
            raise FeaturesMissingError(f"no features at {path.name}") from exc
        if stored.dtype != np.float16:
            raise FeaturesMissingError(f"{path.name} holds {stored.dtype}, not float16")
        return stored


def _scores_in_blocks(stored: npt.NDArray[np.float16], query_vector: FloatArray) -> FloatArray:
    num_rows, dim = stored.shape
    scores = np.empty(num_rows, dtype=np.float32)
    step = max(1, BLOCK_BYTES // (4 * dim))
    for start in range(0, num_rows, step):
        scores[start : start + step] = unit_rows(stored[start : start + step]) @ query_vector
    scores.flags.writeable = False
    return scores


class FeatureWriter:
    """Appends rows to the temporary files of one key; `commit` makes them visible at once.

    An index run that was cut short is resumed: the next writer of the key starts at `next_row`.
    The lock on the file keeps a second writer out and goes with the process that holds it.
    """

    def __init__(
        self, layout: DataLayout, key: FeatureKey, num_rows: int, shape: FeatureShape
    ) -> None:
        self._num_rows = num_rows
        self._embedding_shape = (shape.embedding_dim,)
        self._token_shape = (shape.tokens_per_picture, shape.token_dim)
        self._embeddings_path = layout.embeddings(key.video_id, key.fps, key.encoder_id)
        self._tokens_path = layout.tokens(key.video_id, key.fps, key.encoder_id)
        layout.temporary.mkdir(parents=True, exist_ok=True)
        stem = layout.temporary / f"{key.video_id}@{key.fps:g}fps@{key.encoder_id}"
        self._embeddings = _PartFile(
            stem.with_name(stem.name + ".embeddings.part"), num_rows, self._embedding_shape
        )
        try:
            self._tokens = _PartFile(
                stem.with_name(stem.name + ".tokens.part"), num_rows, self._token_shape
            )
        except BaseException:
            self._embeddings.close()
            raise
        self._next_row = min(self._embeddings.num_rows, self._tokens.num_rows)
        self._embeddings.truncate(self._next_row)
        self._tokens.truncate(self._next_row)

    @property
    def next_row(self) -> int:
        """The first row that is not written yet; `num_rows` when all are."""
        return self._next_row

    def append(self, embeddings: npt.NDArray[np.float16], tokens: npt.NDArray[np.float16]) -> None:
        """Add rows `[B, D]` and `[B, P, D_v]`. Raises `InvalidFeaturesError`, OSError."""
        num_new = len(embeddings)
        if embeddings.shape[1:] != self._embedding_shape or tokens.shape != (
            num_new,
            *self._token_shape,
        ):
            raise InvalidFeaturesError(
                f"rows of shape {embeddings.shape} and {tokens.shape} do not fit "
                f"{self._embedding_shape} and {self._token_shape}"
            )
        if self._next_row + num_new > self._num_rows:
            raise InvalidFeaturesError(f"more than {self._num_rows} rows")
        if not (np.isfinite(embeddings).all() and np.isfinite(tokens).all()):
            raise InvalidFeaturesError("rows must be finite")
        norms = np.linalg.norm(embeddings.astype(np.float32), axis=1)
        if (np.abs(norms - 1.0) > NORM_TOLERANCE).any():
            raise InvalidFeaturesError("embeddings must be L2-normalised")
        self._embeddings.append(embeddings)
        self._tokens.append(tokens)
        self._next_row += num_new

    def commit(self) -> None:
        """Make all rows visible, durably. Raises `InvalidFeaturesError` when rows are missing."""
        if self._next_row != self._num_rows:
            raise InvalidFeaturesError(f"{self._next_row} of {self._num_rows} rows are written")
        folder = self._embeddings_path.parent
        folder.mkdir(parents=True, exist_ok=True)
        self._tokens.publish(self._tokens_path)
        self._embeddings.publish(self._embeddings_path)
        _sync_folder(folder)

    def close(self) -> None:
        """Let go of the key. Rows that were not committed stay for the next writer."""
        self._embeddings.close()
        self._tokens.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _PartFile:
    """A `.npy` file of `num_rows` float16 rows in the making; its header is written first."""

    def __init__(self, path: Path, num_rows: int, row_shape: tuple[int, ...]) -> None:
        self._path = path
        self._row_bytes = 2 * int(np.prod(row_shape))
        self._file = _open_locked(path)
        try:
            self._header_bytes = self._start(num_rows, row_shape)
        except BaseException:
            self._file.close()
            raise
        size = self._file.seek(0, os.SEEK_END)
        self.num_rows = min(num_rows, (size - self._header_bytes) // self._row_bytes)

    def _start(self, num_rows: int, row_shape: tuple[int, ...]) -> int:
        """Write the header unless the file starts with the same one; its length in bytes."""
        header = _npy_header((num_rows, *row_shape))
        self._file.seek(0)
        if self._file.read(len(header)) != header:
            self._file.truncate(0)
            self._file.seek(0)
            self._file.write(header)
        return len(header)

    def truncate(self, num_rows: int) -> None:
        self._file.truncate(self._header_bytes + num_rows * self._row_bytes)
        self._file.seek(0, os.SEEK_END)

    def append(self, rows: npt.NDArray[np.float16]) -> None:
        remaining = memoryview(rows.astype("<f2").tobytes())
        while remaining:
            remaining = remaining[self._file.write(remaining) :]

    def publish(self, path: Path) -> None:
        os.fsync(self._file.fileno())
        self._path.replace(path)

    def close(self) -> None:
        self._file.close()


def _open_locked(path: Path) -> FileIO:
    """The file at `path`, locked, its rows kept. Raises `FeatureWriterBusyError`."""
    while True:
        file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, path):
                return file
        except BlockingIOError as exc:
            file.close()
            raise FeatureWriterBusyError(f"{path.name} has a writer already") from exc
        # Published by its writer between opening and locking: this is the finished file.
        file.close()


def _is_at(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _npy_header(shape: tuple[int, ...]) -> bytes:
    """Version 1.0 of the `.npy` format (numpy.lib.format): padded so that the rows are aligned."""
    described = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}"
    prefix = b"\x93NUMPY\x01\x00"
    unpadded_bytes = len(prefix) + 2 + len(described) + 1
    padded = described + " " * (-unpadded_bytes % 64) + "\n"
    return prefix + len(padded).to_bytes(2, "little") + padded.encode()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
