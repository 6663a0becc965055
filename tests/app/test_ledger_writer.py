"""The writer of the ledger: batches, its bound, retries, the end; and PostgreSQL killed midway."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from app.errors import LedgerUnavailableError
from app.stores.ledger import Ledger
from app.stores.ledger_database import RecordRefusedError
from app.stores.ledger_rows import SelectionRecord
from app.stores.ledger_writer import LedgerWriter, WriterLimits
from observability.metrics import Metrics
from shadow.records import ComparisonRecord
from tests.app.ledger_world import SALT, comparison, selection
from tests.app.postgres import running_postgres
from tests.app.video_world import wait_until

QUICK = WriterLimits(batch_rows=3, batch_s=0.05, first_retry_s=0.01, last_retry_s=0.05)
SLOW = WriterLimits(batch_rows=100, batch_s=60.0)


class FakeStore:
    """Takes batches; `is_away` and `refused` make it fail, `gate` makes it wait."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.is_away = False
        self.refused: set[str] = set()
        self.num_attempts = 0
        self.gate = threading.Event()
        self.gate.set()

    def put_selections(self, records: Sequence[SelectionRecord]) -> None:
        self._put([record.answer_id for record in records])

    def put_comparisons(self, records: Sequence[ComparisonRecord]) -> None:
        self._put([record.comparison_id for record in records])

    def _put(self, ids: list[str]) -> None:
        self.num_attempts += 1
        self.gate.wait(20)
        if self.is_away:
            raise LedgerUnavailableError
        if self.refused & set(ids):
            raise RecordRefusedError("no such state")
        self.batches.append(ids)

    @property
    def written(self) -> list[str]:
        return [one for batch in self.batches for one in batch]


class Counters:
    """What the writer counted."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        provider = MeterProvider(metric_readers=[self._reader])
        self.metrics = Metrics(provider, sampler_ids=())

    def of(self, name: str, **labels: str) -> float:
        data = self._reader.get_metrics_data()
        assert data is not None
        return sum(
            point.value
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for item in scope.metrics
            if item.name == f"framegate.ledger.{name}"
            for point in item.data.data_points
            if isinstance(point, NumberDataPoint)
            and labels.items() <= dict(point.attributes or {}).items()
        )


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def counters() -> Counters:
    return Counters()


@contextmanager
def writing(
    store: FakeStore | Ledger, counters: Counters, limits: WriterLimits
) -> Iterator[LedgerWriter]:
    writer = LedgerWriter(store, counters.metrics, limits)
    writer.start()
    try:
        yield writer
    finally:
        writer.close(5.0)


def test_rows_wait_for_the_batch_to_be_full(store: FakeStore, counters: Counters) -> None:
    limits = WriterLimits(batch_rows=3, batch_s=60.0)
    with writing(store, counters, limits) as writer:
        for name in ("a", "b"):
            writer.put_selection(selection(name))
        time.sleep(0.05)
        assert store.batches == []
        writer.put_selection(selection("c"))
        wait_until(lambda: store.batches == [["a", "b", "c"]])
        wait_until(lambda: writer.num_queued == 0)
        assert counters.of("rows_written", table="selections") == 3
        assert counters.of("queued_rows") == 0


def test_rows_wait_no_longer_than_the_batch_may_last(store: FakeStore, counters: Counters) -> None:
    with writing(store, counters, QUICK) as writer:
        writer.put_selection(selection("a"))
        wait_until(lambda: store.batches == [["a"]])


def test_a_batch_holds_no_more_than_its_bound(store: FakeStore, counters: Counters) -> None:
    store.gate.clear()
    with writing(store, counters, QUICK) as writer:
        for number in range(8):
            writer.put_selection(selection(str(number)))
        store.gate.set()
        assert writer.flush(5.0)
    assert store.written == list("01234567")
    assert max(map(len, store.batches)) == 3


def test_a_flush_writes_what_waits_and_says_whether_all_of_it_is_written(
    store: FakeStore, counters: Counters
) -> None:
    with writing(store, counters, SLOW) as writer:
        writer.put_selection(selection("a"))
        writer.put_comparison(comparison("x"))
        assert writer.flush(5.0)
        assert store.batches == [["a"], ["x"]]
        store.gate.clear()
        writer.put_selection(selection("b"))
        assert not writer.flush(0.05)
        store.gate.set()


def test_a_flush_ends_also_while_rows_keep_coming(store: FakeStore, counters: Counters) -> None:
    with writing(store, counters, QUICK) as writer:
        feed = Feed(writer)
        wait_until(lambda: feed.num_put > 3)
        for _ in range(5):
            assert writer.flush(5.0)
        num_put = feed.stop()
    assert len(store.written) == num_put


def test_a_full_queue_drops_comparisons_first_and_counts_them(
    store: FakeStore, counters: Counters
) -> None:
    writer = LedgerWriter(store, counters.metrics, WriterLimits(queue_rows=3))
    for name in ("x", "y", "z"):
        writer.put_comparison(comparison(name))
    for name in ("a", "b"):
        writer.put_selection(selection(name))
    writer.put_comparison(comparison("w"))
    assert counters.of("rows_dropped", table="comparisons", reason="queue_full") == 3

    for name in ("c", "d"):
        writer.put_selection(selection(name))
    writer.put_comparison(comparison("v"))
    assert counters.of("rows_dropped", table="comparisons", reason="queue_full") == 5
    assert counters.of("rows_dropped", table="selections", reason="queue_full") == 1
    assert writer.num_queued == counters.of("queued_rows") == 3

    writer.start()
    writer.close(5.0)
    assert store.written == ["a", "b", "c"]


def test_a_batch_is_tried_again_until_the_database_is_back(
    store: FakeStore, counters: Counters
) -> None:
    store.is_away = True
    with writing(store, counters, QUICK) as writer:
        writer.put_selection(selection("a"))
        wait_until(lambda: store.num_attempts >= 3)
        writer.put_selection(selection("b"))
        assert counters.of("write_failures") >= 2
        store.is_away = False
        wait_until(lambda: store.written == ["a", "b"])
    assert counters.of("rows_dropped") == 0


def test_the_pause_between_attempts_does_not_end_by_new_rows(
    store: FakeStore, counters: Counters
) -> None:
    store.is_away = True
    limits = WriterLimits(batch_rows=1, batch_s=0.01, first_retry_s=60.0)
    with writing(store, counters, limits) as writer:
        for number in range(20):
            writer.put_selection(selection(str(number)))
            time.sleep(0.005)
        assert store.num_attempts == 1
        store.is_away = False


def test_one_bad_row_is_dropped_and_the_others_of_its_batch_are_written(
    store: FakeStore, counters: Counters
) -> None:
    store.refused = {"b"}
    with writing(store, counters, QUICK) as writer:
        for name in ("a", "b", "c"):
            writer.put_selection(selection(name))
        wait_until(lambda: store.written == ["a", "c"])
    assert counters.of("rows_dropped", table="selections", reason="refused") == 1
    assert counters.of("rows_written") == 2


def test_closing_writes_what_waits_and_takes_nothing_more(
    store: FakeStore, counters: Counters
) -> None:
    with writing(store, counters, SLOW) as writer:
        for number in range(250):
            writer.put_selection(selection(str(number)))
        writer.put_comparison(comparison("x"))
    assert len(store.written) == 251
    writer.put_selection(selection("late"))
    assert counters.of("rows_dropped", table="selections", reason="shutdown") == 1


def test_closing_gives_up_in_time_what_cannot_be_written(
    store: FakeStore, counters: Counters
) -> None:
    store.is_away = True
    writer = LedgerWriter(store, counters.metrics, QUICK)
    writer.start()
    for number in range(5):
        writer.put_selection(selection(str(number)))
    started = time.monotonic()
    writer.close(0.3)
    assert time.monotonic() - started < 5.0
    assert counters.of("rows_dropped", table="selections", reason="shutdown") == 5


def test_putting_a_row_does_not_wait_for_the_database(store: FakeStore, counters: Counters) -> None:
    store.gate.clear()
    with writing(store, counters, QUICK) as writer:
        writer.put_selection(selection("a"))
        wait_until(lambda: store.num_attempts == 1)
        started = time.monotonic()
        for number in range(100):
            writer.put_selection(selection(str(number)))
        assert time.monotonic() - started < 5.0
        store.gate.set()


def test_nothing_accepted_is_lost_or_doubled_when_postgresql_is_killed(
    counters: Counters,
) -> None:
    limits = WriterLimits(batch_rows=5, batch_s=0.02, first_retry_s=0.05, last_retry_s=0.2)
    with running_postgres() as postgres:
        ledger = Ledger(postgres.new_database())
        with writing(ledger, counters, limits) as writer:
            feed = Feed(writer)
            wait_until(lambda: counters.of("rows_written") >= 20)
            postgres.kill()
            wait_until(lambda: counters.of("write_failures") >= 2)
            num_put_while_away = feed.num_put
            wait_until(lambda: feed.num_put > num_put_while_away)
            postgres.start_again()
            num_put = feed.stop()
            assert writer.flush(30.0)
            found = [row.answer_id for row in ledger.exposures_after(0, salt=SALT)]
        ledger.close()
    assert found == [str(number) for number in range(num_put)]
    assert counters.of("rows_dropped") == 0
    assert counters.of("rows_written") == num_put


class Feed:
    """Answers that end one after the other, whatever the database does."""

    def __init__(self, writer: LedgerWriter) -> None:
        self.num_put = 0
        self._writer = writer
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> int:
        """How many there were."""
        self._is_over.set()
        self._thread.join()
        return self.num_put

    def _run(self) -> None:
        while not self._is_over.wait(0.005):
            self._writer.put_selection(selection(str(self.num_put)))
            self.num_put += 1
