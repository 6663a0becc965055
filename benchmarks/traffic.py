"""Users who ask over kept connections, by a client that costs less than the service does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    document: dict[str, Any]
    seconds: float


class Connection:
    """One kept HTTP/1.1 connection; one request at a time. Reads replies with a Content-Length."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    async def post(self, path: str, body: Mapping[str, object]) -> Reply:
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        started = perf_counter()
        self._writer.write(head.encode() + content)
        await self._writer.drain()
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        reply = await self._reader.readexactly(int(headers["content-length"]))
        status = int(lines[0].split(" ")[1])
        return Reply(status, json.loads(reply), perf_counter() - started)

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connections(url: str, number: int) -> AsyncIterator[list[Connection]]:
    """`number` open connections to the service at `url`."""
    address = urlsplit(url)
    host, port = address.hostname or "", address.port or 80
    opened = []
    try:
        for _ in range(number):
            reader, writer = await asyncio.open_connection(host, port)
            opened.append(Connection(reader, writer, f"{host}:{port}"))
        yield opened
    finally:
        for connection in opened:
            connection.close()
