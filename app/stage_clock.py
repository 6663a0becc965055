"""Seconds of every stage of one answer, for its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from observability.names import Stage
from observability.stages import SpanTimer, stage

WAIT = "wait_for_index"


class StageClock:
    """One per answer. `stage` also opens the stage's span and records its histogram."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: Stage) -> Iterator[SpanTimer]:
        timer = stage(name)
        try:
            with timer:
                yield timer
        finally:
            self._seconds[str(name)] = timer.seconds

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Waiting for the index is no stage of the question."""
        started = perf_counter()
        try:
            yield
        finally:
            self._seconds[WAIT] = perf_counter() - started

    @property
    def total_s(self) -> float:
        return perf_counter() - self._started

    @property
    def seconds(self) -> dict[str, float]:
        """Stages that ended so far, in whatever way, and `total`."""
        rounded = {name: round(value, 6) for name, value in self._seconds.items()}
        return rounded | {"total": round(self.total_s, 6)}
