from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.api.body_limit import BodyLimitMiddleware, BodyLimits

pytestmark = pytest.mark.anyio


async def _echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(await request.body())


async def sent(pieces: AsyncIterator[bytes]) -> httpx.Response:
    app = Starlette(routes=[Route("/echo", _echo, methods=["POST"])])
    app.add_middleware(BodyLimitMiddleware, limits=BodyLimits(max_bytes=16, max_s=0.3))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        return await client.post("/echo", content=pieces)


async def test_a_body_within_the_limits_arrives() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        await asyncio.sleep(0.01)
        yield b"two"

    reply = await sent(pieces())
    assert (reply.status_code, reply.text) == (200, "one two")


async def test_a_body_that_is_never_finished_is_refused_in_time() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    reply = await sent(pieces())
    assert (reply.status_code, reply.text) == (408, "The limit is 0.3 s.")


async def test_a_body_that_drips_does_not_start_the_clock_anew() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"."
            await asyncio.sleep(0.1)

    assert (await sent(pieces())).status_code == 408
