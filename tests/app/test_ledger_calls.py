"""Calls on the ledger from the event loop: bounded in number and time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from app.errors import LedgerUnavailableError
from app.ledger_calls import LedgerCalls

pytestmark = pytest.mark.anyio


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hanging database waits for; open at the end, so that no thread is left."""
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
async def calls() -> AsyncIterator[LedgerCalls]:
    opened = LedgerCalls(max_waiting=6, timeout_s=5.0)
    yield opened
    opened.close()


async def test_a_call_returns_or_raises_what_its_function_does(calls: LedgerCalls) -> None:
    assert await calls.run(int, "7", base=8) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        await calls.run(int, "x")


async def test_a_call_that_hangs_is_given_up(gate: threading.Event) -> None:
    calls = LedgerCalls(timeout_s=0.05)
    with pytest.raises(LedgerUnavailableError, match="did not answer"):
        await calls.run(gate.wait, 20.0)
    gate.set()
    calls.close()


async def test_calls_beyond_the_bound_are_refused_at_once_and_room_comes_back(
    calls: LedgerCalls, gate: threading.Event
) -> None:
    hanging = [asyncio.create_task(calls.run(gate.wait, 20.0)) for _ in range(6)]
    await asyncio.sleep(0.01)
    with pytest.raises(LedgerUnavailableError, match="Too many calls"):
        await calls.run(int)
    gate.set()
    assert await asyncio.gather(*hanging) == [True] * 6
    assert await calls.run(int) == 0


async def test_hanging_calls_leave_the_loops_own_threads_alone(
    calls: LedgerCalls, gate: threading.Event
) -> None:
    hanging = [asyncio.create_task(calls.run(gate.wait, 20.0)) for _ in range(6)]
    await asyncio.sleep(0.01)
    async with asyncio.timeout(5.0):
        assert await asyncio.to_thread(int, "7") == 7
    gate.set()
    await asyncio.gather(*hanging)
