"""Alarms that repeat: the first is logged at once, then one a minute with the number held back."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from observability.logs import log_event
from observability.names import Event

MAX_KEYS = 256


class RepeatLimiter:
    """Admits the first of equal keys, then one per interval. Threads may share it.

    Remembers the last 256 keys, so that a key made of changing text cannot fill the memory.
    """

    def __init__(
        self, interval_s: float = 60.0, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval_s = interval_s
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def admit(self, key: Hashable) -> int | None:
        """How many equal ones were held back since the last admitted; `None`: hold this one too."""
        now_s = self._clock_s()
        with self._lock:
            admitted_s, num_held = self._seen.pop(key, (now_s - self._interval_s, 0))
            is_held = now_s - admitted_s < self._interval_s
            self._seen[key] = (admitted_s, num_held + 1) if is_held else (now_s, 0)
            if len(self._seen) > MAX_KEYS:
                self._seen.popitem(last=False)
        return None if is_held else num_held


class AlarmLog:
    """Logs an alarm line once a minute per (event, key)."""

    def __init__(self, logger: logging.Logger, limiter: RepeatLimiter) -> None:
        self._logger = logger
        self._limiter = limiter

    def raise_alarm(
        self,
        event: Event,
        key: str,
        message: str,
        /,
        *,
        exc_info: BaseException | None = None,
        **fields: object,
    ) -> bool:
        """Log at level error; False when held back. `num_repeats` says how many were before."""
        num_repeats = self._limiter.admit((event, key))
        if num_repeats is None:
            return False
        log_event(
            self._logger,
            event,
            message,
            level=logging.ERROR,
            exc_info=exc_info,
            num_repeats=num_repeats,
            **fields,
        )
        return True


class RepeatFilter(logging.Filter):
    """For a handler: holds back the repeated lines of the loggers under `name`.

    An exporter whose collector is away says so at every attempt.
    """

    def __init__(self, name: str, limiter: RepeatLimiter) -> None:
        super().__init__(name)
        self._limiter = limiter

    def filter(self, record: logging.LogRecord) -> bool:
        if not super().filter(record):
            return True
        return self._limiter.admit((record.name, record.msg)) is not None
