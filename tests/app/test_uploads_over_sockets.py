"""Uploads through a real server: limits while receiving, closed connections, clients that leave."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.app.video_world import VideoWorld, build_world, serving, wait_until

LIMIT = 1_000_000
CHUNK = b"%x\r\n%b\r\n" % (50_000, b"x" * 50_000)


@pytest.fixture
def world(tmp_path: Path) -> VideoWorld:
    return build_world(tmp_path / "data", max_upload_bytes=LIMIT, upload_idle_timeout_s=2.0)


@pytest.fixture
def port(world: VideoWorld) -> Iterator[int]:
    with serving(world) as opened:
        yield opened


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def head(*headers: str) -> bytes:
    lines = ("POST /v1/videos HTTP/1.1", "Host: 127.0.0.1", *headers, "", "")
    return "\r\n".join(lines).encode()


def read_all(connection: socket.socket) -> bytes:
    """Until the server closes the connection."""
    received = bytearray()
    while piece := connection.recv(65536):
        received += piece
    return bytes(received)


def test_a_chunked_upload_is_refused_while_it_is_being_sent(port: int, world: VideoWorld) -> None:
    with closing(connect(port)) as connection:
        connection.sendall(head("Transfer-Encoding: chunked"))
        for _ in range(LIMIT // 50_000 + 4):  # And never the end of the body.
            connection.sendall(CHUNK)
        reply = read_all(connection)

    assert reply.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in reply.lower()
    assert b"urn:framegate:problem:video-too-large" in reply
    assert (world.temporary_files(), world.stored_videos()) == ([], [])


def test_a_stated_length_above_the_limit_is_refused_before_the_body(port: int) -> None:
    with closing(connect(port)) as connection:
        connection.sendall(head(f"Content-Length: {LIMIT + 1}"))
        reply = connection.recv(65536)

    assert reply.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in reply.lower()


def test_a_client_that_asks_first_is_refused_without_continue(port: int) -> None:
    with closing(connect(port)) as connection:
        connection.sendall(head(f"Content-Length: {LIMIT + 1}", "Expect: 100-continue"))
        connection.shutdown(socket.SHUT_WR)
        reply = read_all(connection)

    assert reply.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in reply


@pytest.mark.parametrize("as_multipart", [False, True])
def test_an_ordinary_client_sees_the_refusal_and_no_reset(port: int, as_multipart: bool) -> None:
    content = b"x" * (8 * LIMIT)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        if as_multipart:
            refused = client.post("/v1/videos", files={"file": ("a.mp4", content)})
        else:
            refused = client.post("/v1/videos", content=iter([content[:LIMIT]] * 8))

    assert refused.status_code == 413
    assert refused.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "beginning",
    [
        head("Content-Length: 500000") + b"x" * 200_000,
        head("Transfer-Encoding: chunked") + CHUNK * 3,
        head("Transfer-Encoding: chunked") + CHUNK * 3 + b"c350\r\nhalf a chunk",
        head("Content-Length: 500000", "Content-Type: multipart/form-data; boundary=b")
        + b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        + b"x" * 200_000,
    ],
    ids=["raw", "chunked", "half a chunk", "multipart"],
)
def test_a_client_that_leaves_midway_leaves_nothing(
    port: int, world: VideoWorld, beginning: bytes
) -> None:
    with closing(connect(port)) as connection:
        connection.sendall(beginning)
        wait_until(lambda: world.temporary_files() != [])

    wait_until(lambda: world.temporary_files() == [])
    assert world.stored_videos() == []
    assert world.catalogue.video_ids() == set()


def test_an_upload_that_stalls_is_timed_out(port: int, world: VideoWorld) -> None:
    with closing(connect(port)) as connection:
        connection.sendall(head("Content-Length: 1000") + b"x" * 10)
        reply = read_all(connection)

    assert reply.startswith(b"HTTP/1.1 408")
    assert world.temporary_files() == []


def test_a_connection_is_kept_after_an_upload(port: int) -> None:
    with closing(connect(port)) as connection:
        for content in (b"first", b"second"):
            connection.sendall(head(f"Content-Length: {len(content)}") + content)
            reply = connection.recv(65536)

            assert reply.startswith(b"HTTP/1.1 201")
            assert hashlib.sha256(content).hexdigest().encode() in reply


def test_a_multipart_body_that_never_closes_is_no_upload(port: int, world: VideoWorld) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nxxxx\r\n--b'
    with closing(connect(port)) as connection:
        connection.sendall(
            head(f"Content-Length: {len(part)}", "Content-Type: multipart/form-data; boundary=b")
            + part
        )
        reply = connection.recv(65536)

    assert reply.startswith(b"HTTP/1.1 422")
    assert (world.temporary_files(), world.stored_videos()) == ([], [])
