"""The whole gateway on a folder of the test: real stages, a fake encoder and a fake LLM."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from app.gateway import Gateway, answer_runner, build_gateway
from app.main import app_of
from app.settings import Settings
from app.stages import Stages
from tests.app.clips import ClipStyle, plain, write_clip
from tests.app.video_world import wait_until
from tests.fakes import FakeEncoderClient, FakeLanguageModel

COLOURS = ((10, 10, 10), (240, 240, 240), (200, 20, 20), (60, 240, 240))
SECONDS_A_SHOT = 5
NEW_CLIP_SECONDS = 3
QUESTION = "What animals are there?"
Mutation = Callable[[Stages], Stages]


@dataclass(frozen=True)
class IndexedData:
    """A data folder in which two clips are ready. Worlds work on copies."""

    folder: Path
    short_id: str
    """Ten seconds, two shots."""
    long_id: str
    """Twenty seconds, four shots."""


@dataclass(frozen=True)
class AnswerWorld:
    settings: Settings
    encoder: FakeEncoderClient
    llm: FakeLanguageModel
    gateway: Gateway
    app: FastAPI

    def counted(self, metric: str, **labels: str) -> float:
        """The sum of a counter's (or histogram's `_sum`, `_count`) matching series in /metrics."""
        text = self.gateway.base.telemetry.metrics_text().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == metric and labels.items() <= sample.labels.items()
        )


def build_world(
    data_dir: Path, indexed: IndexedData | None = None, *, mutate: Mutation | None = None, **o: Any
) -> AnswerWorld:
    """A world with the indexed clips, or an empty one; `o` overrides settings."""
    if indexed is not None and not data_dir.exists():
        shutil.copytree(indexed.folder, data_dir)
    fields = {
        "data_dir": data_dir,
        "min_free_disk_bytes": 0,
        "llm_model": FakeLanguageModel.llm_id,
        "llm_context_tokens": 4096,
        "selection_deadline_s": 5.0,
        **o,
    }
    settings = Settings.model_validate(fields)
    encoder, llm = FakeEncoderClient(), FakeLanguageModel()
    gateway = build_gateway(settings, encoder, llm)
    if mutate is not None:
        gateway = _mutated(gateway, mutate)
    return AnswerWorld(settings, encoder, llm, gateway, app_of(gateway))


def _mutated(gateway: Gateway, mutate: Mutation) -> Gateway:
    stages = mutate(gateway.questions.stages)
    shadow = gateway.questions.shadow
    runner = answer_runner(gateway.base, gateway.ledger, gateway.videos, stages, shadow)
    return replace(gateway, questions=replace(gateway.questions, stages=stages, runner=runner))


@asynccontextmanager
async def running(world: AnswerWorld) -> AsyncIterator[httpx.AsyncClient]:
    """The app with its lifespan, called without a socket. Replies come whole, streams too."""
    transport = httpx.ASGITransport(world.app, raise_app_exceptions=False)
    async with (
        world.app.router.lifespan_context(world.app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30.0) as client,
    ):
        yield client


@contextmanager
def serving(world: AnswerWorld) -> Iterator[str]:
    """The app behind a real server on the loopback interface; its address."""
    config = uvicorn.Config(world.app, port=0, log_config=None, ws="none", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


async def ask(client: httpx.AsyncClient, video_id: str, **fields: Any) -> dict[str, Any]:
    """The document of an answer that must succeed."""
    reply = await post(client, video_id, **fields)
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


async def post(client: httpx.AsyncClient, video_id: str, **fields: Any) -> httpx.Response:
    body = {"video_id": video_id, "question": QUESTION, **fields}
    return await client.post("/v1/answers", json=body)


def events_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Name and data of every server-sent event."""
    events = []
    for group in text.split("\n\n")[:-1]:
        first, second = group.split("\n")
        data = json.loads(second.removeprefix("data: "))
        events.append((first.removeprefix("event: "), data))
    return events


def assert_problem(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert reply.headers["Content-Type"] == "application/problem+json", reply.text
    document: dict[str, Any] = reply.json()
    assert document["type"] == f"urn:framegate:problem:{code}"
    assert reply.status_code == document["status"] == status
    return document


def write_colours(path: Path, seconds: float, *, fps: int = 2) -> bytes:
    """A clip that changes its colour, hence its shot, every five seconds."""
    num_frames = round(seconds * fps)
    pictures = [
        plain(COLOURS[index // (SECONDS_A_SHOT * fps) % len(COLOURS)])
        for index in range(num_frames)
    ]
    style = ClipStyle(pts_ms=[index * 1000 // fps for index in range(num_frames)])
    return write_clip(path, pictures, style).read_bytes()


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> IndexedData:
    """Decoded by the real decoder, once for all tests."""
    return asyncio.run(_index_clips(tmp_path_factory.mktemp("indexed")))


async def _index_clips(folder: Path) -> IndexedData:
    world = build_world(folder / "data")
    async with running(world) as client:
        made = partial(_upload, client, folder)
        short_id, long_id = [await made(seconds) for seconds in (10.0, 20.0)]
        for video_id in (short_id, long_id):
            await world.gateway.videos.indexer.wait_until_ready("default", video_id, 60.0)
    return IndexedData(folder / "data", short_id, long_id)


async def _upload(client: httpx.AsyncClient, folder: Path, seconds: float) -> str:
    content = write_colours(folder / f"{seconds:g}.mp4", seconds)
    reply = await client.post("/v1/videos", content=content)
    assert reply.status_code == 201, reply.text
    return str(reply.json()["video_id"])


def put_flags(path: Path, content: dict[str, Any]) -> None:
    """Replace the flag file the way operators should."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(content))
    beside.replace(path)
