"""A real encoder process on a real socket, with the real model."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx
import numpy as np
import pytest

from app.encoders import wire
from app.encoders.client import HttpEncoderClient
from app.encoders.contract import EncoderInfo
from app.errors import EncoderUnavailableError
from tests.app.pictures import noise_picture, write_pack

pytestmark = pytest.mark.anyio

NUM_PICTURES = 24
START_TIMEOUT_S = 60.0


@dataclass
class EncoderProcess:
    """The process of one data folder; started, killed and started again by tests."""

    data_dir: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        return self.data_dir / "run" / "encoder.sock"

    @property
    def pack(self) -> Path:
        return self.data_dir / "derived" / "frames"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-m", "app.encoders.server", "--decode-version", "d1-test"),
            *("--socket", str(self.socket), "--data-dir", str(self.data_dir), *arguments),
        ]
        log = (self.data_dir / "encoder.log").open("ab")
        with log:
            process = subprocess.Popen(command, stderr=log)
        self.running.append(process)
        return process

    def stop(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncoderProcess]:
    started = EncoderProcess(tmp_path_factory.mktemp("data"))
    write_pack(started.pack, [noise_picture(i) for i in range(NUM_PICTURES)])
    started.start()
    yield started
    started.stop()


@pytest.fixture
async def client(process: EncoderProcess) -> AsyncIterator[HttpEncoderClient]:
    opened = HttpEncoderClient(process.socket)
    await until_ready(opened)
    yield opened
    await opened.aclose()


@pytest.fixture
async def http(
    process: EncoderProcess, client: HttpEncoderClient
) -> AsyncIterator[httpx.AsyncClient]:
    """Bare HTTP to a process that is ready."""
    transport = httpx.AsyncHTTPTransport(uds=str(process.socket))
    async with httpx.AsyncClient(transport=transport, base_url="http://encoder") as opened:
        yield opened


async def until_ready(client: HttpEncoderClient) -> EncoderInfo:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return await client.info()
        except EncoderUnavailableError:
            if time.monotonic() > deadline_s:
                raise
        await anyio.sleep(0.05)


async def test_pictures_arrive_in_order_whatever_the_range(
    process: EncoderProcess, client: HttpEncoderClient
) -> None:
    info = await client.info()
    whole = await client.encode_pictures(process.pack, range(3, 7))
    single = await client.encode_pictures(process.pack, range(5, 6))
    assert whole.embeddings.shape == (4, info.embedding_dim)
    assert whole.tokens.shape == (4, info.tokens_per_picture, info.token_dim)
    assert np.array_equal(whole.embeddings[2], single.embeddings[0])
    assert np.array_equal(whole.tokens[2], single.tokens[0])
    assert whole.device_s > single.device_s > 0


async def test_no_pictures_give_no_rows(process: EncoderProcess, client: HttpEncoderClient) -> None:
    info = await client.info()
    nothing = await client.encode_pictures(process.pack, range(2, 2))
    assert nothing.embeddings.shape == (0, info.embedding_dim)
    assert nothing.tokens.shape == (0, info.tokens_per_picture, info.token_dim)


async def test_a_query_vector_is_read_only_and_of_unit_length(client: HttpEncoderClient) -> None:
    query = await client.encode_query("a dog")
    assert query.vector.dtype == np.float32
    assert np.linalg.norm(query.vector) == pytest.approx(1, abs=1e-5)
    assert not query.vector.flags.writeable
    assert not query.is_truncated
    assert query.device_s > 0


async def test_queries_overtake_a_long_queue_of_pictures(
    process: EncoderProcess, client: HttpEncoderClient
) -> None:
    finished: list[str] = []

    async def encode_pictures() -> None:
        await client.encode_pictures(process.pack, range(NUM_PICTURES))
        finished.append("pictures")

    indexing = [asyncio.create_task(encode_pictures()) for _ in range(2)]
    await anyio.sleep(0.2)
    for number in range(5):
        await client.encode_query(f"question {number}")
        finished.append("query")
    await asyncio.gather(*indexing)
    assert finished == ["query"] * 5 + ["pictures"] * 2


async def test_work_whose_client_left_is_dropped(
    process: EncoderProcess, client: HttpEncoderClient
) -> None:
    pictures = await client.encode_pictures(process.pack, range(NUM_PICTURES))
    leavers = [
        asyncio.create_task(client.encode_pictures(process.pack, range(NUM_PICTURES)))
        for _ in range(20)
    ]
    await anyio.sleep(0.2)
    for leaver in leavers:
        leaver.cancel()
    await asyncio.gather(*leavers, return_exceptions=True)
    # Twenty packs would take twenty times as long as one; a wide margin for a busy machine.
    async with asyncio.timeout(8 * pictures.device_s + 5):
        await client.encode_pictures(process.pack, range(NUM_PICTURES))


async def test_health_says_ready(http: httpx.AsyncClient) -> None:
    response = await http.get(wire.HEALTH)
    assert (response.status_code, response.json()) == (200, {"status": "ready"})


@pytest.mark.parametrize(
    ("folder", "start", "stop"),
    [
        ("/etc", 0, 1),
        ("{data}/derived/frames/../../..", 0, 1),
        ("{data}/derived/missing", 0, 1),
        ("{data}/derived/frames", NUM_PICTURES, NUM_PICTURES + 1),
        ("{data}/derived/frames", -1, 1),
        ("{data}/derived/frames", 0, wire.MAX_ROWS + 1),
    ],
)
async def test_a_request_outside_the_stored_pictures_is_refused(
    process: EncoderProcess, http: httpx.AsyncClient, folder: str, start: int, stop: int
) -> None:
    asked = {"folder": folder.format(data=process.data_dir), "start": start, "stop": stop}
    response = await http.post(wire.PICTURES, json=asked)
    assert response.status_code == 422
    assert response.json()["detail"]


async def test_a_damaged_picture_is_an_error_and_the_process_lives_on(
    process: EncoderProcess, client: HttpEncoderClient
) -> None:
    damaged = process.data_dir / "derived" / "damaged"
    write_pack(damaged, [noise_picture(1)])
    size = (damaged / "pictures.pack").stat().st_size
    (damaged / "pictures.pack").write_bytes(bytes(size))
    with pytest.raises(EncoderUnavailableError, match="damaged"):
        await client.encode_pictures(damaged, range(1))
    await client.encode_query("still there?")


async def test_the_socket_is_for_this_user_alone(
    process: EncoderProcess, client: HttpEncoderClient
) -> None:
    assert process.socket.stat().st_mode & 0o777 == 0o600


async def test_a_killed_process_is_unavailable_until_it_is_started_again(
    process: EncoderProcess, client: HttpEncoderClient
) -> None:
    info = await client.info()
    indexing = asyncio.create_task(client.encode_pictures(process.pack, range(NUM_PICTURES)))
    await anyio.sleep(0.2)
    process.running[-1].send_signal(signal.SIGKILL)
    with pytest.raises(EncoderUnavailableError):
        await indexing
    process.running[-1].wait()
    with pytest.raises(EncoderUnavailableError):
        await client.encode_query("anybody?")
    assert await client.info() == info

    process.start()
    fresh = HttpEncoderClient(process.socket)
    assert await until_ready(fresh) == info
    await fresh.aclose()
    assert (await client.encode_pictures(process.pack, range(2))).embeddings.shape[0] == 2


async def test_sigterm_ends_the_process(tmp_path: Path) -> None:
    process = EncoderProcess(tmp_path)
    started = process.start()
    try:
        client = HttpEncoderClient(process.socket)
        await until_ready(client)
        await client.aclose()
        started.terminate()
        assert started.wait(timeout=20) in (0, -signal.SIGTERM)
    finally:
        process.stop()


async def test_a_process_that_cannot_load_its_model_exits_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where a folder should be")
    process = EncoderProcess(tmp_path)
    started = process.start()
    try:
        assert await asyncio.to_thread(started.wait, START_TIMEOUT_S) == 1
    finally:
        process.stop()
    assert "cannot be loaded" in (tmp_path / "encoder.log").read_text()
