"""An OpenAI-compatible server that answers at once, or after a fixed time: a known LLM."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

WORDS = ("A", " short", " answer", ".")


@dataclass(slots=True)
class InstantLlm:
    """A running server; `arrivals_s` are monotonic times at which chat requests arrived."""

    url: str
    arrivals_s: list[float] = field(default_factory=list)


def _noting(arrivals_s: list[float]) -> type[asyncio.Protocol]:
    """uvicorn's protocol, which notes when the first byte of a chat request is here."""

    class Noting(H11Protocol):
        def data_received(self, data: bytes) -> None:
            if data.startswith(b"POST "):
                arrivals_s.append(time.monotonic())
            super().data_received(data)

    return Noting


def _answering_after(delay_s: float) -> Callable[[Request], Awaitable[Response]]:
    async def chat(request: Request) -> Response:
        await request.body()
        return StreamingResponse(_chunks(delay_s), media_type="text/event-stream")

    return chat


async def _chunks(delay_s: float) -> AsyncIterator[str]:
    """The delay is spread over the words, as a real answer's is."""
    for word in WORDS:
        await asyncio.sleep(delay_s / len(WORDS))
        yield _data({"choices": [{"index": 0, "delta": {"content": word}}]})
    yield _data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield _data(
        {
            "choices": [],
            "usage": {"prompt_tokens": 1, "completion_tokens": len(WORDS), "total_tokens": 5},
        }
    )
    yield "data: [DONE]\n\n"


def _data(document: dict[str, object]) -> str:
    return f"data: {json.dumps(document)}\n\n"


async def _models(_: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": "instant", "object": "model"}]})


async def _health(_: Request) -> Response:
    return Response()


@contextmanager
def instant_llm(delay_s: float = 0.0) -> Iterator[InstantLlm]:
    """Serve on a free loopback port from a thread of this process; `delay_s` to the last word."""
    listener = socket.create_server(("127.0.0.1", 0))
    llm = InstantLlm(f"http://127.0.0.1:{listener.getsockname()[1]}")
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", _answering_after(delay_s), methods=["POST"]),
            Route("/v1/models", _models),
            Route("/health", _health),
        ]
    )
    protocol = _noting(llm.arrivals_s)
    server = uvicorn.Server(uvicorn.Config(app, http=protocol, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield llm
    finally:
        server.should_exit = True
        thread.join(timeout=10)
