"""Whose turn it is on the encoder's one device: questions before the index."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum


class Priority(IntEnum):
    """Lower goes first; equals go in the order of their coming."""

    QUERY = 0
    PICTURES = 1


class QueueFullError(Exception):
    """As many as allowed wait already."""


class Turns:
    """A lock with priorities and a bounded queue, for one event loop.

    Whoever is cancelled while waiting leaves the queue without a turn.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._waiting: list[tuple[Priority, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, priority: Priority) -> AsyncIterator[None]:
        """Inside, the caller is alone. Raises `QueueFullError` at once when too many wait."""
        await self._take(priority)
        try:
            yield
        finally:
            self._pass_on()

    @property
    def num_waiting(self) -> int:
        return sum(not turn.done() for _, _, turn in self._waiting)

    async def _take(self, priority: Priority) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        if self.num_waiting >= self._max_waiting:
            raise QueueFullError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            # Cancelled between being given the turn and taking it.
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False
