"""Work stops when the client leaves."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from app.api.client_left import ClientLeftError, run_while_connected

pytestmark = pytest.mark.anyio


class Connection:
    """A client that leaves when it is told to."""

    def __init__(self) -> None:
        self.has_left = asyncio.Event()

    async def receive(self) -> Message:
        await self.has_left.wait()
        return {"type": "http.disconnect"}

    @property
    def request(self) -> Request:
        return Request({"type": "http"}, self.receive)


class Work:
    """Takes until it is released, and tells whether it was stopped."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.has_started = asyncio.Event()
        self.release = asyncio.Event()

    async def run(self) -> str:
        self.has_started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # Cleaning up takes a moment, and is waited for.
            self.is_stopped = True
            raise
        return "done"


async def test_the_result_comes_back_while_the_client_is_there() -> None:
    work = Work()
    work.release.set()
    assert await run_while_connected(Connection().request, work.run()) == "done"


async def test_a_client_that_leaves_stops_the_work() -> None:
    connection, work = Connection(), Work()
    running = asyncio.create_task(run_while_connected(connection.request, work.run()))
    await work.has_started.wait()
    connection.has_left.set()

    with pytest.raises(ClientLeftError):
        await running
    assert work.is_stopped


async def test_a_reply_that_is_ready_when_the_client_leaves_counts() -> None:
    connection, work = Connection(), Work()
    connection.has_left.set()
    work.release.set()
    assert await run_while_connected(connection.request, work.run()) == "done"


async def test_what_the_work_raises_is_raised() -> None:
    async def fail() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_while_connected(Connection().request, fail())


async def test_a_cancelled_request_stops_the_work() -> None:
    work = Work()
    running = asyncio.create_task(run_while_connected(Connection().request, work.run()))
    await work.has_started.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert work.is_stopped
