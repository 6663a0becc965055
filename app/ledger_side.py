"""The ledger of one gateway: its database, its writer, its retention, and who calls them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.ledger_calls import LedgerCalls
from app.ledger_retention import LedgerRetention, RetentionRule
from app.settings import Settings
from app.stores.layout import DataLayout
from app.stores.ledger import Ledger
from app.stores.ledger_writer import LedgerWriter, WriterLimits
from app.stores.sqlite import sqlite_url
from observability.logs import log_event
from observability.metrics import Metrics
from observability.names import Event

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerSide:
    ledger: Ledger
    writer: LedgerWriter
    calls: LedgerCalls
    """For asynchronous callers: `await calls.run(ledger.put_feedback, record)`."""
    retention: LedgerRetention
    close_s: float
    """Most seconds that the last batch gets at the end."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Writes and prunes while the block runs; at its end writes what is left."""
        problem = self.ledger.start_problem
        if problem is not None:
            log_event(logger, Event.LEDGER_UNAVAILABLE, problem, level=logging.ERROR)
        self.writer.start()
        retention = asyncio.create_task(self.retention.keep(), name="ledger retention")
        try:
            yield
        finally:
            retention.cancel()
            await asyncio.gather(retention, return_exceptions=True)
            await asyncio.to_thread(self.writer.close, self.close_s)
            self.calls.close()
            await asyncio.to_thread(self.ledger.close)


def build_ledger_side(settings: Settings, layout: DataLayout, metrics: Metrics) -> LedgerSide:
    """Raises `SettingsError` for an address of no database, and for one that a newer Framegate
    has used; a database that is away is found later."""
    ledger = open_ledger(settings, layout)
    calls = LedgerCalls()
    limits = WriterLimits(queue_rows=settings.ledger_queue_rows)
    rule = RetentionRule(settings.ledger_retention_days)
    return LedgerSide(
        ledger=ledger,
        writer=LedgerWriter(ledger, metrics, limits),
        calls=calls,
        retention=LedgerRetention(ledger, calls, rule),
        close_s=settings.shutdown_grace_s,
    )


def open_ledger(settings: Settings, layout: DataLayout) -> Ledger:
    """The database of FRAMEGATE_LEDGER_URL, or the file in the data folder."""
    if settings.ledger_url is not None:
        return Ledger(settings.ledger_url.get_secret_value())
    return Ledger(sqlite_url(layout.ledger))
