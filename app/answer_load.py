"""How busy the gateway is with answers: what may be left undone is left undone by this."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class AnswerLoad:
    """Counts the answers that run and those of them that wait for their first word.

    Changed on the event loop only; the counts may be read by any thread.
    """

    def __init__(self) -> None:
        self.num_running = 0
        self._waiting: set[int] = set()
        self._changed = asyncio.Event()
        self._last_seat = 0

    @property
    def num_waiting(self) -> int:
        """Answers that have said nothing yet."""
        return len(self._waiting)

    @contextmanager
    def seat(self) -> Iterator[int]:
        """One running answer, for as long as the block; gives the number for `is_speaking`."""
        self._last_seat += 1
        seat = self._last_seat
        self.num_running += 1
        self._waiting.add(seat)
        self._tell()
        try:
            yield seat
        finally:
            self.num_running -= 1
            self._waiting.discard(seat)
            self._tell()

    def is_speaking(self, seat: int) -> None:
        """The answer's first word is out."""
        self._waiting.discard(seat)
        self._tell()

    def is_quiet(self, max_running: int) -> bool:
        """Nobody waits, and at most `max_running` answers run."""
        return not self._waiting and self.num_running <= max_running

    async def until(self, *, is_quiet: bool, max_running: int) -> None:
        """Return as soon as `is_quiet(max_running)` is so."""
        while self.is_quiet(max_running) is not is_quiet:
            await self._changed.wait()

    def _tell(self) -> None:
        """Wake everyone who waits now; whoever comes later waits for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()
