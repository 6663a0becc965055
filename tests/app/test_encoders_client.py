"""The client against processes that misbehave; `test_encoders_server.py` has the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from app.encoders import wire
from app.encoders.client import HttpEncoderClient
from app.encoders.contract import EncoderInfo, PictureFeatures, QueryVector
from app.errors import EncoderUnavailableError

pytestmark = pytest.mark.anyio

INFO = EncoderInfo("tiny", "tiny@00000001", 4, 2, 3, ("cat", "dog", "zebra"))


@asynccontextmanager
async def answering(
    folder: Path, reply: Callable[[str], tuple[int, bytes]]
) -> AsyncIterator[HttpEncoderClient]:
    """A client of a server that answers `reply(path)` to everything."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status, body = reply(head.split()[1].decode())
        writer.write(b"HTTP/1.1 %d X\r\nconnection: close\r\n" % status)
        writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    path = folder / "encoder.sock"
    async with await asyncio.start_unix_server(serve, path):
        client = HttpEncoderClient(path)
        try:
            yield client
        finally:
            await client.aclose()


def query_body(encoder_id: str) -> bytes:
    vector = np.full(4, 0.5, dtype=np.float32)
    return wire.query_to_bytes(QueryVector(vector, True, 0.25), encoder_id)


def test_results_cross_the_wire_unchanged() -> None:
    embeddings = np.arange(8, dtype=np.float16).reshape(2, 4)
    tokens = np.arange(12, dtype=np.float16).reshape(2, 2, 3)
    sent = PictureFeatures(embeddings, tokens, 1.5)
    encoder_id, received = wire.pictures_from_bytes(wire.pictures_to_bytes(sent, "tiny@1"))
    assert (encoder_id, received.device_s) == ("tiny@1", 1.5)
    assert np.array_equal(received.embeddings, embeddings)
    assert np.array_equal(received.tokens, tokens)
    encoder_id, query = wire.query_from_bytes(query_body("tiny@1"))
    assert (encoder_id, query.is_truncated, query.device_s) == ("tiny@1", True, 0.25)
    assert query.vector.tolist() == [0.5] * 4


def test_info_crosses_the_wire_unchanged() -> None:
    assert wire.info_from_json(wire.info_to_json(INFO)) == INFO


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"\x02\0\0\0{}", b"\xff\xff\xff\xff", b"\x03\0\0\0[1]", b"null"]
)
async def test_nonsense_is_an_unavailable_encoder(tmp_path: Path, body: bytes) -> None:
    async with answering(tmp_path, lambda _: (200, body)) as client:
        with pytest.raises(EncoderUnavailableError):
            await client.info()
        with pytest.raises(EncoderUnavailableError):
            await client.encode_query("a dog")
        with pytest.raises(EncoderUnavailableError):
            await client.encode_pictures(tmp_path, range(1))


@pytest.mark.parametrize("status", [404, 422, 500, 503])
async def test_the_reason_of_a_refusal_is_told(tmp_path: Path, status: int) -> None:
    async with answering(tmp_path, lambda _: (status, b'{"detail": "loading"}')) as client:
        with pytest.raises(EncoderUnavailableError, match=rf"{status}.*loading"):
            await client.encode_query("a dog")


async def test_nobody_listening_is_an_unavailable_encoder(tmp_path: Path) -> None:
    client = HttpEncoderClient(tmp_path / "missing.sock")
    with pytest.raises(EncoderUnavailableError):
        await client.info()
    await client.aclose()


async def test_vectors_of_a_replaced_encoder_are_not_taken(tmp_path: Path) -> None:
    served = {wire.INFO: wire.info_to_json(INFO)}
    served[wire.QUERY] = query_body("tiny@00000002")
    async with answering(tmp_path, lambda path: (200, served[path])) as client:
        assert await client.info() == INFO
        with pytest.raises(EncoderUnavailableError, match="tiny@00000002"):
            await client.encode_query("a dog")
        served[wire.INFO] = served[wire.INFO].replace(b"00000001", b"00000002")
        assert (await client.info()).encoder_id == "tiny@00000002"
        assert (await client.encode_query("a dog")).vector.tolist() == [0.5] * 4
