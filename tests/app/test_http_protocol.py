"""What comes before a request is bounded; requests themselves pass as they are."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from app.api.http_protocol import MAX_HEAD_BYTES, BoundedHttpProtocol

PIECE = b"a" * 65_536
CHUNK = b"10000\r\n" + PIECE + b"\r\n"


async def count_body(scope: Scope, receive: Receive, send: Send) -> None:
    """Replies with the number of the body's bytes."""
    body = await Request(scope, receive).body()
    await PlainTextResponse(str(len(body)))(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = uvicorn.Config(
        count_body, port=0, log_config=None, ws="none", lifespan="off", http=BoundedHttpProtocol
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield int(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join(20)


def reply_to(port: int, *pieces: bytes) -> bytes:
    """What comes back until the server closes; what it does not read any more is not sent."""
    received = bytearray()
    with closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            while piece := connection.recv(65_536):
                received += piece
        except ConnectionError:
            return bytes(received)
    return bytes(received)


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nA: ",
        b"GET /",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ",
    ],
    ids=["header", "address", "trailer"],
)
def test_what_never_ends_is_cut_off(port: int, beginning: bytes) -> None:
    begun = time.monotonic()
    reply = reply_to(port, beginning, *([PIECE] * 64))

    assert reply == b"" or reply.startswith(b"HTTP/1.1 400")
    assert time.monotonic() - begun < 5.0


def test_a_client_that_waits_is_told_the_limit(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * MAX_HEAD_BYTES
    assert f"larger than {MAX_HEAD_BYTES} bytes".encode() in reply_to(port, head)


def test_a_large_body_in_many_pieces_passes(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    reply = reply_to(port, head, *([CHUNK] * 40), b"0\r\n\r\n")
    assert reply.endswith(b"\r\n\r\n%d" % (40 * 65_536))


def test_many_requests_on_one_connection_pass(port: int) -> None:
    request = b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 30_000 + b"\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert reply_to(port, *([request] * 5), last).count(b"HTTP/1.1 200") == 6
