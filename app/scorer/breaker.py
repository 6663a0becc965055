"""Gives a scoring model up for a while once it has failed several selections in a row."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CircuitRule:
    """Opens after `max_failures` questions in a row that the server failed, for `open_s`."""

    max_failures: int = 3
    open_s: float = 15.0


class CircuitBreaker:
    """One for each process that asks the server; from any thread.

    When `open_s` has passed, the next question is sent as a trial: if that fails too, the breaker
    opens again at once; while it runs, no other is sent.
    """

    def __init__(self, rule: CircuitRule, clock: Callable[[], float]) -> None:
        self._rule = rule
        self._clock = clock
        self._lock = threading.Lock()
        self._num_failures = 0
        self._open_until_s: float | None = None
        self._is_trial_running = False

    def admit(self) -> float | None:
        """None: the question may be sent; else the seconds until one may be.

        After None comes exactly one call of `succeed`, `fail` or `abandon`.
        """
        with self._lock:
            if self._open_until_s is None:
                return None
            remaining_s = self._open_until_s - self._clock()
            if remaining_s > 0 or self._is_trial_running:
                return max(remaining_s, 0.0)
            self._is_trial_running = True
            return None

    def succeed(self) -> None:
        with self._lock:
            self._num_failures = 0
            self._open_until_s = None
            self._is_trial_running = False

    def fail(self) -> bool:
        """Whether this opened it."""
        with self._lock:
            self._num_failures += 1
            self._is_trial_running = False
            if self._num_failures < self._rule.max_failures:
                return False
            self._open_until_s = self._clock() + self._rule.open_s
            return True

    def abandon(self) -> None:
        """The question ended without saying anything about the server."""
        with self._lock:
            self._is_trial_running = False
