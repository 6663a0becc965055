"""A small gateway for videos: the real parts around a fake encoder, on a folder of the test."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import av
import httpx
import numpy as np
import uvicorn
from fastapi import FastAPI
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from app.api.operators import OperatorGate
from app.api.problems import install_problem_handlers
from app.api.videos import VideoServices, videos_router
from app.decode import Decoder
from app.decoding.job import DecodeConfig
from app.index import Indexer, IndexLimits, IndexParts
from app.intake import Intake, IntakeLimits
from app.ledger_calls import LedgerCalls
from app.settings import Settings
from app.stores.catalogue import Catalogue
from app.stores.eviction import Evictor
from app.stores.features import FeatureStore
from app.stores.layout import DataLayout
from app.stores.ledger import Ledger
from app.stores.sqlite import sqlite_url
from observability.metrics import Metrics
from tests.fakes import FakeEncoderClient

TENANT = "default"


@dataclass(frozen=True)
class VideoWorld:
    settings: Settings
    layout: DataLayout
    catalogue: Catalogue
    intake: Intake
    indexer: Indexer
    evictor: Evictor
    encoder: FakeEncoderClient
    decoder: Decoder
    reader: InMemoryMetricReader
    app: FastAPI
    ledger: Ledger

    def counted(self, metric: str) -> float:
        """The sum over all labels of a counter."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return sum(
            point.value
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for item in scope.metrics
            if item.name == metric
            for point in item.data.data_points
            if isinstance(point, NumberDataPoint)
        )

    def temporary_files(self) -> list[str]:
        return sorted(path.name for path in self.layout.temporary.iterdir())

    def stored_videos(self) -> list[str]:
        return sorted(path.name for path in self.layout.root.glob("videos/??/*"))


def build_world(
    data_dir: Path, encoder: FakeEncoderClient | None = None, **overrides: object
) -> VideoWorld:
    settings = Settings.model_validate(
        {"data_dir": data_dir, "min_free_disk_bytes": 0, "encoder_patience_s": 20.0, **overrides}
    )
    reader = InMemoryMetricReader()
    metrics = Metrics(MeterProvider(metric_readers=[reader]), sampler_ids=())
    layout = DataLayout(data_dir)
    layout.create()
    catalogue = Catalogue(layout.catalogue, max_answers=100)
    features = FeatureStore(layout, settings.feature_cache_bytes)
    evictor = Evictor(layout, catalogue, settings.max_store_bytes, features.forget)
    decoder = Decoder(_decode_config(settings), metrics.decode_worker_started)
    client = encoder or FakeEncoderClient()
    parts = IndexParts(layout, catalogue, decoder, client, features, evictor, metrics)
    indexer = Indexer(parts, IndexLimits.of(settings))
    intake = Intake(layout, catalogue, IntakeLimits.of(settings), metrics.upload_received)
    ledger = Ledger(sqlite_url(layout.ledger))
    services = VideoServices(
        tenant=TENANT,
        max_upload_bytes=settings.max_upload_bytes,
        catalogue=catalogue,
        intake=intake,
        indexer=indexer,
        evictor=evictor,
        layout=layout,
        decode_version=decoder.config.decode_version,
        gate=OperatorGate(settings.operator_key),
        ledger=ledger,
        ledger_calls=LedgerCalls(),
    )
    app = FastAPI()
    install_problem_handlers(app)
    app.include_router(videos_router(services))
    return VideoWorld(
        settings, layout, catalogue, intake, indexer, evictor, client, decoder, reader, app, ledger
    )


def _decode_config(settings: Settings) -> DecodeConfig:
    return DecodeConfig(
        max_frame_pixels=settings.max_frame_pixels,
        max_total_pixels=settings.max_total_pixels,
        timeout_s=settings.decode_timeout_s,
        memory_bytes=settings.decode_memory_bytes,
        threads=settings.decode_threads,
        picture_side_px=settings.picture_side_px,
        picture_quality=settings.picture_quality,
        fps_max=settings.candidate_fps_max,
        fps_min=settings.candidate_fps_min,
        candidate_target=settings.candidate_target,
    )


@asynccontextmanager
async def running(world: VideoWorld) -> AsyncIterator[httpx.AsyncClient]:
    """As the gateway's lifespan does; a client that calls the app without a socket."""
    world.intake.recover()
    await world.indexer.start()
    transport = httpx.ASGITransport(world.app, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", timeout=30.0
        ) as client:
            yield client
    finally:
        await world.indexer.close()
        world.catalogue.close()
        world.ledger.close()


@contextmanager
def serving(world: VideoWorld) -> Iterator[int]:
    """The app behind a real server on the loopback interface; its port."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with running(world):
            yield

    world.app.router.lifespan_context = lifespan
    server = uvicorn.Server(uvicorn.Config(world.app, port=0, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(20)


def wait_until(is_true: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


async def chunked(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]
        await asyncio.sleep(0)


def small_clip(path: Path, *, num_frames: int = 60, seed: int = 0) -> bytes:
    """An MPEG-4 clip of 64 x 48 at 30 frames a second; other seeds are other bytes."""
    rng = np.random.default_rng(seed)
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for index in range(num_frames):
            picture = np.full((48, 64, 3), 4 * index % 256, np.uint8)
            picture[::2] = rng.integers(0, 255, 3)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path.read_bytes()
