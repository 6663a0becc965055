"""Model scores of one video on disk: shared by processes, bounded, and thrown away when damaged.

The file lies among the derived data of its video, so that it goes with them when the video is
deleted or evicted. It holds no question: keys are digests.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeGuard, TypeVar

Result = TypeVar("Result")
logger = logging.getLogger(__name__)

ScoreValue: TypeAlias = float | str | None
"""A probability, the text of `rate_ranges`, or None: the model gave no usable answer."""

BUSY_TIMEOUT_S = 1.0
FRESH_S = 3600.0
"""A score that was used this recently is not marked again: reading must not mean writing."""
KEPT_SHARE = 0.75
"""Of the size, once it is exceeded."""
MIN_BYTES = 64 * 1024
_NUM_PARAMETERS = 500
_TABLE = (
    "CREATE TABLE IF NOT EXISTS scores "
    "(key BLOB PRIMARY KEY, value, used_s INTEGER NOT NULL) WITHOUT ROWID"
)


@dataclass(frozen=True, slots=True)
class ScoreKey:
    """All that a score depends on."""

    kind: str
    video_id: str
    fps: float
    decode_version: str
    model_id: str
    prompt_version: str
    picture_px: int
    query: str
    rows: tuple[int, ...]

    @property
    def digest(self) -> bytes:
        members = [getattr(self, name) for name in self.__slots__]
        return hashlib.sha256(json.dumps(members).encode()).digest()


class ScoreCache:
    """One file. Its failures are never the caller's: what cannot be read is asked again."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """The folder of `path` is not made: without it the video is gone, and nothing is kept."""
        self._path = path
        self._max_bytes = max(max_bytes, MIN_BYTES)

    def read(self, keys: Sequence[ScoreKey]) -> dict[ScoreKey, ScoreValue]:
        """Those of `keys` that are known."""
        by_digest = {key.digest: key for key in keys}
        found = self._with_file(partial(_read, list(by_digest))) or {}
        return {by_digest[digest]: value for digest, value in found.items()}

    def write(self, scores: Mapping[ScoreKey, ScoreValue]) -> None:
        now_s = int(time.time())
        rows = [(key.digest, value, now_s) for key, value in scores.items()]
        if rows:
            self._with_file(partial(_write, rows, self._max_bytes))

    def _with_file(self, work: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """None: it could not be done."""
        try:
            with closing(self._connected()) as connection:
                return work(connection)
        except sqlite3.OperationalError as exc:
            # Locked for too long, no room on the disk, or the video is gone.
            logger.warning("model scores are not kept: %s", exc)
        except sqlite3.DatabaseError as exc:
            logger.warning("damaged model scores are thrown away: %s", exc)
            self._discard()
        return None

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S)
        try:
            # Without a sync at every commit: a crash of the machine may lose scores, no more.
            for pragma in ("journal_mode = WAL", "synchronous = NORMAL"):
                connection.execute(f"PRAGMA {pragma}").close()
            connection.execute(_TABLE)
        except BaseException:
            connection.close()
            raise
        return connection

    def _discard(self) -> None:
        # The file itself last: a new one must not meet what belonged to the old.
        for suffix in ("-wal", "-shm", ""):
            with suppress(OSError):
                self._path.with_name(self._path.name + suffix).unlink()


def _read(digests: list[bytes], connection: sqlite3.Connection) -> dict[bytes, ScoreValue]:
    found: dict[bytes, ScoreValue] = {}
    stale: list[tuple[int, bytes]] = []
    now_s = int(time.time())
    for digest, value, used_s in _rows(connection, digests):
        if _is_score(value):
            found[digest] = value
        if not now_s - FRESH_S < used_s <= now_s:
            stale.append((now_s, digest))
    if stale:
        with connection:
            connection.executemany("UPDATE scores SET used_s = ? WHERE key = ?", stale)
    return found


def _rows(
    connection: sqlite3.Connection, digests: list[bytes]
) -> Iterator[tuple[bytes, object, int]]:
    for start in range(0, len(digests), _NUM_PARAMETERS):
        some = digests[start : start + _NUM_PARAMETERS]
        marks = ",".join("?" * len(some))
        query = f"SELECT key, value, used_s FROM scores WHERE key IN ({marks})"
        yield from connection.execute(query, some).fetchall()


def _is_score(value: object) -> TypeGuard[ScoreValue]:
    return value is None or isinstance(value, str) or (isinstance(value, float) and 0 <= value <= 1)


def _write(
    rows: list[tuple[bytes, ScoreValue, int]], max_bytes: int, connection: sqlite3.Connection
) -> None:
    with connection:
        connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?, ?)", rows)
    used_bytes = _used_bytes(connection)
    if used_bytes > max_bytes:
        _drop_oldest(connection, KEPT_SHARE * max_bytes / used_bytes)


def _drop_oldest(connection: sqlite3.Connection, kept_share: float) -> None:
    """What was used longest ago goes; freed pages are used again, so the file does not grow."""
    [count] = connection.execute("SELECT count(*) FROM scores").fetchone()
    oldest = "SELECT key FROM scores ORDER BY used_s LIMIT ?"
    num_dropped = count - int(kept_share * count)
    with connection:
        connection.execute(f"DELETE FROM scores WHERE key IN ({oldest})", (num_dropped,))


def _used_bytes(connection: sqlite3.Connection) -> int:
    num_pages, num_free, page_bytes = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((num_pages - num_free) * page_bytes)
