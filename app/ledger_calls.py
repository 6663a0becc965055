"""Calls on the ledger from the event loop, in threads that nothing else needs.

A database that hangs holds these threads, not those in which answers are noted and videos opened.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from app.errors import LedgerUnavailableError

NUM_THREADS = 4
MAX_WAITING = 64
TIMEOUT_S = 15.0
"""Beyond the ten seconds that a locked SQLite file, or a lock of PostgreSQL, is waited for."""

P = ParamSpec("P")
T = TypeVar("T")


class LedgerCalls:
    """A few threads, and a bound on the calls that wait for one."""

    def __init__(self, *, max_waiting: int = MAX_WAITING, timeout_s: float = TIMEOUT_S) -> None:
        self._pool = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="ledger")
        self._timeout_s = timeout_s
        self._room = threading.BoundedSemaphore(max_waiting)

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What `call` returns or raises.

        Raises `LedgerUnavailableError` when too many calls wait or this one takes too long; it is
        not known then whether it was carried out.
        """
        if not self._room.acquire(blocking=False):
            raise LedgerUnavailableError("Too many calls wait for the ledger already.")
        # As `asyncio.to_thread` does, so that spans and log lines keep their trace.
        context = contextvars.copy_context()
        future = self._pool.submit(context.run, partial(call, *args, **kwargs))
        future.add_done_callback(lambda _: self._room.release())
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.wrap_future(future)
        except TimeoutError as exc:
            raise LedgerUnavailableError(
                f"The ledger did not answer within {self._timeout_s:g} s."
            ) from exc

    def close(self) -> None:
        """What waits is not begun; what runs may end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
