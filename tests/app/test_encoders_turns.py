from __future__ import annotations

import asyncio

import pytest

from app.encoders.turns import Priority, QueueFullError, Turns

pytestmark = pytest.mark.anyio


async def take(turns: Turns, priority: Priority, name: str, order: list[str]) -> None:
    async with turns.turn(priority):
        order.append(name)
        await asyncio.sleep(0)


async def start(*tasks: asyncio.Task[None]) -> None:
    """Let each task run up to its first wait."""
    for _ in tasks:
        await asyncio.sleep(0)


async def test_queries_go_before_pictures_and_equals_in_order() -> None:
    turns, order = Turns(10), list[str]()
    async with turns.turn(Priority.PICTURES):
        waiting = [
            asyncio.create_task(take(turns, priority, name, order))
            for name, priority in [
                ("picture 1", Priority.PICTURES),
                ("query 1", Priority.QUERY),
                ("picture 2", Priority.PICTURES),
                ("query 2", Priority.QUERY),
            ]
        ]
        await start(*waiting)
    await asyncio.gather(*waiting)
    assert order == ["query 1", "query 2", "picture 1", "picture 2"]


async def test_whoever_leaves_the_queue_gets_no_turn_and_frees_a_place() -> None:
    turns, order = Turns(1), list[str]()
    async with turns.turn(Priority.QUERY):
        leaver = asyncio.create_task(take(turns, Priority.QUERY, "leaver", order))
        await start(leaver)
        with pytest.raises(QueueFullError):
            await take(turns, Priority.QUERY, "refused", order)
        leaver.cancel()
        await asyncio.gather(leaver, return_exceptions=True)
        stayer = asyncio.create_task(take(turns, Priority.QUERY, "stayer", order))
        await start(stayer)
    await stayer
    assert order == ["stayer"]


async def test_a_turn_that_is_cancelled_as_it_is_given_passes_on() -> None:
    turns, order = Turns(10), list[str]()
    async with turns.turn(Priority.QUERY):
        leaver = asyncio.create_task(take(turns, Priority.QUERY, "leaver", order))
        stayer = asyncio.create_task(take(turns, Priority.QUERY, "stayer", order))
        await start(leaver, stayer)
    leaver.cancel()
    await asyncio.gather(leaver, stayer, return_exceptions=True)
    assert order == ["stayer"]
    async with asyncio.timeout(1), turns.turn(Priority.PICTURES):
        pass


async def test_a_turn_ends_with_an_exception_too() -> None:
    turns = Turns(10)
    with pytest.raises(ValueError, match="inside"):
        async with turns.turn(Priority.QUERY):
            raise ValueError("inside")
    async with asyncio.timeout(1), turns.turn(Priority.PICTURES):
        pass
