"""The gateway's own way back to the baseline, which needs no flag store.

While it is on, every decision is `uniform`, whatever the flags say. It is kept in a file, so that
it survives a restart and every process of the machine sees it at its next decision.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from flags.durable_file import replace_durably
from flags.stamped_file import StampedFile, UnreadableFileError

MAX_BYTES = 16_384
MAX_TEXT_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class KillState:
    """The switch as it stands: who set it last, why, and when (ISO 8601, UTC; empty when never
    set)."""

    is_on: bool
    who: str = ""
    why: str = ""
    at: str = ""


class KillSwitch(Protocol):
    """A switch that every process sees and that survives a restart."""

    def read(self) -> KillState:
        """The state now. Never raises: a store that cannot tell counts as on."""
        ...

    def set(self, *, is_on: bool, who: str, why: str) -> KillState:
        """Store the state durably, then return it. Raises `OSError` where it cannot be stored."""
        ...


class FileKillSwitch:
    """The default `KillSwitch`: one small JSON file. No file means off.

    A file that cannot be read or understood means **on**: someone reached for the switch, and the
    baseline answers every question, while an experiment that was meant to stop may not.
    """

    def __init__(self, path: Path, *, clock: Callable[[], datetime] | None = None) -> None:
        self._file = StampedFile(path, max_bytes=MAX_BYTES)
        self._path = path
        self._clock = clock or (lambda: datetime.now(UTC))
        self._lock = threading.Lock()
        self._state = KillState(is_on=False)

    def read(self) -> KillState:
        """The state now, by one `stat` while the file is unchanged. Never raises."""
        with self._lock:
            if self._file.has_changed():
                self._state = self._load()
            return self._state

    def _load(self) -> KillState:
        try:
            content = self._file.read()
        except UnreadableFileError as exc:
            return _broken(str(exc))
        return KillState(is_on=False) if content is None else _parse(content)

    def set(self, *, is_on: bool, who: str, why: str) -> KillState:
        """Write the state beside the file, flush it to the disk, then rename it into place.

        `who` and `why` are cut to `MAX_TEXT_CHARS`. Raises `OSError`; the old state then still
        stands.
        """
        state = KillState(
            is_on=is_on,
            who=who[:MAX_TEXT_CHARS],
            why=why[:MAX_TEXT_CHARS],
            at=self._clock().astimezone(UTC).isoformat(timespec="milliseconds"),
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(self._path, json.dumps(asdict(state)).encode())
        return state


def _parse(content: bytes) -> KillState:
    try:
        stored = json.loads(content)
    except (ValueError, RecursionError):
        return _broken("not JSON")
    match stored:
        case {"is_on": bool() as is_on, "who": str(), "why": str(), "at": str()}:
            return KillState(is_on, stored["who"], stored["why"], stored["at"])
    return _broken("not what the kill switch writes")


def _broken(reason: str) -> KillState:
    return KillState(is_on=True, who="framegate", why=f"the kill switch file is broken: {reason}")
