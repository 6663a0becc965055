"""Writes selections and comparisons in batches, in a thread of its own, off every request's path.

While the database is away the rows wait in a bounded queue and the same batch is tried again; the
ledger takes each row once, so a batch whose commit was in doubt does no harm. When the queue is
full, comparisons go first.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Protocol

from app.errors import LedgerUnavailableError
from app.stores.ledger_database import RecordRefusedError
from app.stores.ledger_rows import SelectionRecord
from observability.ledger_names import LedgerDrop, LedgerTable
from observability.metrics import Metrics
from observability.names import Event
from observability.repeats import AlarmLog, RepeatLimiter
from shadow.records import ComparisonRecord

logger = logging.getLogger(__name__)

LAST_PAUSE_S = 0.1
"""Between two attempts while it closes."""


class RecordStore(Protocol):
    """The part of the ledger that is written in batches."""

    def put_selections(self, records: Sequence[SelectionRecord]) -> None: ...

    def put_comparisons(self, records: Sequence[ComparisonRecord]) -> None: ...


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """When a batch goes, how many rows may wait, and how long after a failure it is tried again."""

    batch_rows: int = 200
    batch_s: float = 1.0
    """A crash loses what is younger."""
    queue_rows: int = 10_000
    first_retry_s: float = 0.1
    last_retry_s: float = 5.0
    """The pause doubles up to this."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    since: float
    """`monotonic()` when it was put."""
    record: Any


@dataclass(slots=True)
class _Lane:
    """The rows of one table that wait, and how they are written."""

    table: LedgerTable
    put: Callable[[Sequence[Any]], None]
    rows: deque[_Waiting]
    num_put: int = 0
    num_settled: int = 0
    """Of those that were put, the first so many are written or given up."""

    def taken(self, num_rows: int) -> list[Any]:
        return [self.rows.popleft().record for _ in range(min(num_rows, len(self.rows)))]


class LedgerWriter:
    """`put_selection` and `put_comparison` return at once, from any thread, and never raise."""

    def __init__(
        self, store: RecordStore, metrics: Metrics, limits: WriterLimits | None = None
    ) -> None:
        self._metrics = metrics
        self._limits = limits or WriterLimits()
        self._selections = _Lane(LedgerTable.SELECTIONS, store.put_selections, deque())
        self._comparisons = _Lane(LedgerTable.COMPARISONS, store.put_comparisons, deque())
        self._lanes = (self._selections, self._comparisons)
        self._changed = threading.Condition()
        self._num_in_hand = 0
        self._is_flushing = False
        self._closing = threading.Event()
        self._closes_at = float("inf")
        """`monotonic()` after which nothing is tried again."""
        self._alarms = AlarmLog(logger, RepeatLimiter())
        # A database that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="ledger writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put_selection(self, record: SelectionRecord) -> None:
        """Has the place of the oldest waiting comparison when the queue is full."""
        self._put(self._selections, record)

    def put_comparison(self, record: ComparisonRecord) -> None:
        """Dropped when the queue is full of selections; else the oldest comparison makes room."""
        self._put(self._comparisons, record)

    @property
    def num_queued(self) -> int:
        """Rows that are not written yet."""
        return self._num_in_hand + len(self._selections.rows) + len(self._comparisons.rows)

    def flush(self, timeout_s: float) -> bool:
        """Write now what was put until now, without waiting for a whole batch.

        False: not all of it is written within `timeout_s`.
        """
        with self._changed:
            goals = [(lane, lane.num_put) for lane in self._lanes]
            self._is_flushing = True
            self._changed.notify_all()
            is_done = self._changed.wait_for(
                lambda: all(lane.num_settled >= goal for lane, goal in goals), timeout_s
            )
            self._is_flushing = False
        return is_done

    def close(self, timeout_s: float) -> None:
        """Write what waits for at most `timeout_s`, give up the rest, and end the thread."""
        with self._changed:
            self._closes_at = monotonic() + timeout_s
            self._closing.set()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s + self._limits.batch_s)
        for lane in self._lanes:
            self._drop(lane.table, len(lane.taken(len(lane.rows))), LedgerDrop.SHUTDOWN)

    def _put(self, lane: _Lane, record: object) -> None:
        with self._changed:
            if self._closing.is_set():
                self._drop(lane.table, 1, LedgerDrop.SHUTDOWN)
            elif self._make_room():
                lane.rows.append(_Waiting(monotonic(), record))
                lane.num_put += 1
                if self.num_queued == 1 or self.num_queued >= self._limits.batch_rows:
                    self._changed.notify_all()
            else:
                self._drop(lane.table, 1, LedgerDrop.QUEUE_FULL)
            self._metrics.ledger_queue_is(self.num_queued)

    def _make_room(self) -> bool:
        if self.num_queued < self._limits.queue_rows:
            return True
        if not self._comparisons.rows:
            return False
        self._comparisons.rows.popleft()
        self._comparisons.num_settled += 1
        self._drop(LedgerTable.COMPARISONS, 1, LedgerDrop.QUEUE_FULL)
        return True

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            lane, records = batch
            self._write(lane, records)
            with self._changed:
                lane.num_settled += self._num_in_hand
                self._num_in_hand = 0
                self._metrics.ledger_queue_is(self.num_queued)
                self._changed.notify_all()

    def _next_batch(self) -> tuple[_Lane, list[Any]] | None:
        """Waits until one is due; None: it is closed and nothing is left."""
        with self._changed:
            while (due_in_s := self._due_in_s()) > 0:
                self._changed.wait(None if due_in_s == float("inf") else due_in_s)
            lane = self._selections if self._selections.rows else self._comparisons
            records = lane.taken(self._limits.batch_rows)
            self._num_in_hand = len(records)
        return (lane, records) if records else None

    def _due_in_s(self) -> float:
        if self._closing.is_set():
            return 0.0
        oldest = [lane.rows[0].since for lane in self._lanes if lane.rows]
        if not oldest:
            return float("inf")
        if self._is_flushing or self.num_queued >= self._limits.batch_rows:
            return 0.0
        return min(oldest) + self._limits.batch_s - monotonic()

    def _write(self, lane: _Lane, records: list[Any]) -> None:
        """Until they are written, refused, or given up because the end has come."""
        pause_s = self._limits.first_retry_s
        while not self._is_written(lane, records):
            if not self._pause(pause_s):
                self._drop(lane.table, len(records), LedgerDrop.SHUTDOWN)
                return
            pause_s = min(2 * pause_s, self._limits.last_retry_s)

    def _pause(self, pause_s: float) -> bool:
        """Wait before the next attempt; False: there will be none."""
        if not self._closing.wait(pause_s):
            return True
        left_s = self._closes_at - monotonic()
        if left_s <= 0:
            return False
        sleep(min(left_s, LAST_PAUSE_S))
        return True

    def _is_written(self, lane: _Lane, records: list[Any]) -> bool:
        """False: the database is away."""
        try:
            lane.put(records)
        except RecordRefusedError as exc:
            self._write_singly(lane, records, exc)
        except LedgerUnavailableError as exc:
            self._metrics.ledger_write_failed()
            self._alarms.raise_alarm(
                Event.LEDGER_UNAVAILABLE, "write", str(exc), num_queued=self.num_queued
            )
            return False
        else:
            self._metrics.ledger_rows_written(lane.table, len(records))
        return True

    def _write_singly(self, lane: _Lane, records: list[Any], refusal: RecordRefusedError) -> None:
        """One bad row must not take the others of its batch with it."""
        if len(records) > 1:
            for record in records:
                self._write(lane, [record])
            return
        self._drop(lane.table, 1, LedgerDrop.REFUSED)
        self._alarms.raise_alarm(Event.LEDGER_ROW_REFUSED, str(lane.table), str(refusal))

    def _drop(self, table: LedgerTable, num_rows: int, reason: LedgerDrop) -> None:
        if num_rows:
            self._metrics.ledger_rows_dropped(table, reason, num_rows)
