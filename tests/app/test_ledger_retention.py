"""Rows that are too old go, a few at a time, in one gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.errors import LedgerUnavailableError
from app.ledger_calls import LedgerCalls
from app.ledger_retention import DAY_S, LEASE, LedgerRetention, RetentionRule
from app.stores.ledger import Ledger
from tests.app.ledger_world import SALT, selection
from tests.app.video_world import wait_until

pytestmark = pytest.mark.anyio

RULE = RetentionRule(days=30.0, interval_s=0.05, batch_rows=2, pause_s=0.0)


@pytest.fixture
async def calls() -> AsyncIterator[LedgerCalls]:
    opened = LedgerCalls()
    yield opened
    opened.close()


def put_aged(ledger: Ledger, *days: float) -> None:
    now_s = time.time()
    ledger.put_selections([selection(f"{age:g}", created_s=now_s - age * DAY_S) for age in days])


def left(ledger: Ledger) -> list[str]:
    return [exposure.answer_id for exposure in ledger.exposures_after(0, salt=SALT)]


async def test_what_is_older_than_the_retention_goes(ledger: Ledger, calls: LedgerCalls) -> None:
    put_aged(ledger, 31, 50, 29, 1, 40, 60, 30.5)
    retention = LedgerRetention(ledger, calls, RULE)
    assert await retention.prune() == 5
    assert left(ledger) == ["29", "1"]
    assert await retention.prune() == 0


async def test_one_gateway_prunes_at_a_time(ledger: Ledger, calls: LedgerCalls) -> None:
    put_aged(ledger, 31)
    assert ledger.take_lease(LEASE, "another gateway", 60.0)
    assert await LedgerRetention(ledger, calls, RULE).prune() == 0
    ledger.release_lease(LEASE, "another gateway")
    assert await LedgerRetention(ledger, calls, RULE).prune() == 1


async def test_the_lease_is_free_afterwards(ledger: Ledger, calls: LedgerCalls) -> None:
    await LedgerRetention(ledger, calls, RULE).prune()
    assert ledger.take_lease(LEASE, "another gateway", 60.0)


async def test_retention_goes_on_after_the_ledger_was_away(
    tmp_path: Path, calls: LedgerCalls
) -> None:
    in_the_way = tmp_path / "ledger.sqlite"
    in_the_way.mkdir()
    ledger = Ledger(f"sqlite:///{in_the_way}")
    retention = LedgerRetention(ledger, calls, RULE)
    with pytest.raises(LedgerUnavailableError):
        await retention.prune()
    keeping = asyncio.create_task(retention.keep())
    await asyncio.sleep(0.1)
    in_the_way.rmdir()
    put_aged(ledger, 31)
    await asyncio.to_thread(wait_until, lambda: left(ledger) == [])
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    ledger.close()
