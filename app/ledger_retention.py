"""Deletes what is older than the retention, a few rows at a time, in one gateway process."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from dataclasses import dataclass

from app.errors import LedgerUnavailableError
from app.ledger_calls import LedgerCalls
from app.stores.ledger import Ledger
from observability.logs import log_event
from observability.names import Event

logger = logging.getLogger(__name__)

LEASE = "ledger retention"
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """Rows older than `days` go; looked for every `interval_s`, at most `batch_rows` of a table
    in one transaction, so that nobody waits long for it."""

    days: float
    interval_s: float = 3600.0
    batch_rows: int = 500
    pause_s: float = 0.1
    """Between two transactions."""


class LedgerRetention:
    def __init__(self, ledger: Ledger, calls: LedgerCalls, rule: RetentionRule) -> None:
        self._ledger = ledger
        self._calls = calls
        self._rule = rule
        self._holder = uuid.uuid4().hex

    async def keep(self) -> None:
        """For ever; a ledger that is away is tried again at the next turn."""
        while True:
            try:
                await self.prune()
            except LedgerUnavailableError as exc:
                log_event(logger, Event.LEDGER_UNAVAILABLE, exc.detail, level=logging.WARNING)
            await asyncio.sleep(self._rule.interval_s)

    async def prune(self) -> int:
        """Delete what is too old now; how many rows went. Raises `LedgerUnavailableError`."""
        rule, total = self._rule, 0
        before_s = time.time() - rule.days * DAY_S
        while await self._calls.run(self._ledger.take_lease, LEASE, self._holder, 60.0):
            counts = await self._calls.run(self._ledger.delete_older, before_s, rule.batch_rows)
            total += counts.total
            if counts.total == 0:
                break
            await asyncio.sleep(rule.pause_s)
        await self._calls.run(self._ledger.release_lease, LEASE, self._holder)
        if total:
            log_event(logger, Event.LEDGER_PRUNED, num_rows=total, days=rule.days)
        return total
