"""The encoder process: the one place that holds torch. `python -m app.encoders.server`.

HTTP over a Unix domain socket, one event loop, one thread for the model. The thread takes one
picture or one query at a time, queries first: a question waits for at most one picture. Work whose
client went away is dropped before it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.encoders import wire
from app.encoders.conse import ConseEncoder, ConseWeights
from app.encoders.contract import Encoder, EncoderInfo, PictureFeatures
from app.encoders.turns import Priority, QueueFullError, Turns
from app.settings import Settings, load_settings
from app.stores.frames import PicturePack
from app.stores.layout import DataLayout
from observability.logs import configure_logging
from observability.names import Span
from observability.setup import Telemetry, TelemetryConfig, configure_telemetry
from observability.stages import extracted_context, run_in_thread, span

MAX_WAITING = 512
"""Requests that wait for the model; further ones are refused."""
KEEP_ALIVE_S = 3600
"""Longer than the client keeps idle connections: a server that closes first would race with it."""
CLIENT_LEFT = 499
"""Status that nobody receives; nginx's number for it."""

R = TypeVar("R")

logger = logging.getLogger(__name__)


class RefusedRequestError(Exception):
    """A request that cannot be served as it is; the text says why."""


class EncoderService:
    """Runs an encoder in a thread of its own for requests of one event loop."""

    def __init__(self, load: Callable[[], Encoder], data_dir: Path) -> None:
        self._load = load
        self._data_dir = data_dir.resolve()
        self._encoder: Encoder | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._turns = Turns(MAX_WAITING)
        self.failure: BaseException | None = None
        """Why loading failed."""

    async def load(self) -> None:
        """Load the model, in the model's thread; `failure` is set when that raises."""
        loaded = asyncio.get_running_loop().run_in_executor(self._thread, self._load)
        [outcome] = await asyncio.gather(loaded, return_exceptions=True)
        if isinstance(outcome, BaseException):
            self.failure = outcome
            logger.error("the encoder cannot be loaded", exc_info=outcome)
        else:
            self._encoder = outcome

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def encoder(self) -> Encoder | None:
        """None while it is loading."""
        return self._encoder

    async def encode_pictures(self, encoder: Encoder, folder: Path, rows: range) -> PictureFeatures:
        """A turn for every picture. Raises `RefusedRequestError`, `QueueFullError`."""
        pack = self._open_pack(folder, rows)
        parts = []
        with span(Span.ENCODE_PICTURES, num_pictures=len(rows)):
            for row in rows:
                async with self._turns.turn(Priority.PICTURES):
                    parts.append(
                        await run_in_thread(self._thread, _encode_picture, encoder, pack, row)
                    )
        return _joined(parts, encoder.info)

    async def encode_query(self, encoder: Encoder, text: str) -> bytes:
        """The query's vector as it is sent. Raises `QueueFullError`."""
        with span(Span.ENCODE_QUERY):
            async with self._turns.turn(Priority.QUERY):
                vector = await run_in_thread(self._thread, encoder.encode_query, text)
        return wire.query_to_bytes(vector, encoder.info.encoder_id)

    def _open_pack(self, folder: Path, rows: range) -> PicturePack:
        resolved = folder.resolve()
        if not resolved.is_relative_to(self._data_dir):
            raise RefusedRequestError("the folder is outside the data folder")
        if len(rows) > wire.MAX_ROWS:
            raise RefusedRequestError(f"more than {wire.MAX_ROWS} pictures in one request")
        try:
            pack = PicturePack(resolved)
        except (OSError, ValueError) as exc:
            raise RefusedRequestError(f"no picture pack in {folder.name}") from exc
        if rows and rows[-1] >= pack.num_pictures:
            raise RefusedRequestError(f"the pack holds {pack.num_pictures} pictures")
        return pack


def _encode_picture(encoder: Encoder, pack: PicturePack, row: int) -> PictureFeatures:
    try:
        picture = pack.rgb(row)
    except OSError as exc:
        raise RefusedRequestError(str(exc)) from exc
    return encoder.encode_pictures([picture])


def _joined(parts: list[PictureFeatures], info: EncoderInfo) -> PictureFeatures:
    no_tokens = np.empty((0, info.tokens_per_picture, info.token_dim), np.float16)
    no_embeddings = np.empty((0, info.embedding_dim), np.float16)
    return PictureFeatures(
        np.concatenate([no_embeddings, *(part.embeddings for part in parts)]),
        np.concatenate([no_tokens, *(part.tokens for part in parts)]),
        sum(part.device_s for part in parts),
    )


async def unless_client_leaves(request: Request, work: Awaitable[R]) -> R | None:
    """The result of `work`, or None when the client went away first: `work` is then cancelled.

    Call it after the body was read: what is received next can only be the disconnection.
    """
    running = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else None
    finally:
        leaving.cancel()
        running.cancel()
        await asyncio.gather(running, leaving, return_exceptions=True)


class EncoderEndpoints:
    """HTTP in, HTTP out; `EncoderService` does the work."""

    def __init__(self, service: EncoderService) -> None:
        self._service = service

    async def health(self, _: Request) -> Response:
        is_ready = self._service.encoder is not None
        content = {"status": "ready" if is_ready else "loading"}
        return JSONResponse(content, 200 if is_ready else 503)

    async def info(self, _: Request) -> Response:
        encoder = self._service.encoder
        if encoder is None:
            return _loading()
        return Response(wire.info_to_json(encoder.info), media_type="application/json")

    async def encode_pictures(self, request: Request) -> Response:
        asked = wire.PicturesRequest.model_validate_json(await request.body())

        async def encode(encoder: Encoder) -> bytes:
            rows = range(asked.start, asked.stop)
            features = await self._service.encode_pictures(encoder, asked.folder, rows)
            return wire.pictures_to_bytes(features, encoder.info.encoder_id)

        return await self._answer(request, encode)

    async def encode_query(self, request: Request) -> Response:
        asked = wire.QueryRequest.model_validate_json(await request.body())
        return await self._answer(
            request, lambda encoder: self._service.encode_query(encoder, asked.text)
        )

    async def _answer(
        self, request: Request, encode: Callable[[Encoder], Awaitable[bytes]]
    ) -> Response:
        encoder = self._service.encoder
        if encoder is None:
            return _loading()
        with extracted_context(request.headers):
            body = await unless_client_leaves(request, encode(encoder))
        if body is None:
            return Response(status_code=CLIENT_LEFT)
        return Response(body, media_type="application/octet-stream")


def _loading() -> Response:
    return JSONResponse({"detail": "the encoder is loading"}, 503)


async def _refuse(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 422)


async def _refuse_for_now(_: Request, _error: Exception) -> Response:
    return JSONResponse({"detail": "too many requests wait for the encoder"}, 503)


def create_app(service: EncoderService, stop: Callable[[], None]) -> Starlette:
    """The application; `stop` is called when the model cannot be loaded."""
    endpoints = EncoderEndpoints(service)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async def load() -> None:
            await service.load()
            if service.failure is not None:
                stop()

        loading = asyncio.create_task(load())
        yield
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        service.close()

    return Starlette(
        routes=[
            Route(wire.HEALTH, endpoints.health),
            Route(wire.INFO, endpoints.info),
            Route(wire.PICTURES, endpoints.encode_pictures, methods=["POST"]),
            Route(wire.QUERY, endpoints.encode_query, methods=["POST"]),
        ],
        exception_handlers={
            ValidationError: _refuse,
            RefusedRequestError: _refuse,
            QueueFullError: _refuse_for_now,
        },
        lifespan=lifespan,
    )


def bound_socket(path: Path) -> socket.socket:
    """A socket that only this user can connect to; replaces what a killed process left behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
    finally:
        os.umask(before)
    return bound


def serve(service: EncoderService, path: Path) -> None:
    """Serve until a signal. Exits with status 1 when the model could not be loaded."""
    with bound_socket(path) as listener:
        server: uvicorn.Server

        def stop() -> None:
            server.should_exit = True

        config = uvicorn.Config(
            create_app(service, stop),
            fd=listener.fileno(),
            log_config=None,
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=2,
            server_header=False,
        )
        server = uvicorn.Server(config)
        server.run()
    if service.failure is not None:
        sys.exit(1)


def _telemetry(settings: Settings) -> Telemetry:
    telemetry = configure_telemetry(
        TelemetryConfig(
            service_version="0",
            service_name="framegate-encoder",
            otlp_endpoint=settings.otlp_endpoint,
        )
    )
    telemetry.install()
    handlers = [telemetry.log_handler] if telemetry.log_handler else []
    configure_logging(settings.log_level, as_json=settings.log_format == "json", handlers=handlers)
    return telemetry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--decode-version", required=True, help="of the pictures; in encoder_id")
    parser.add_argument("--threads", type=int, default=1, help="of one forward pass")
    arguments = parser.parse_args()
    layout = DataLayout(arguments.data_dir.resolve())

    def load() -> Encoder:
        torch.set_num_threads(arguments.threads)
        cache_dir = layout.models / "conse"
        return ConseEncoder(ConseWeights.installed(), arguments.decode_version, cache_dir)

    telemetry = _telemetry(load_settings())
    try:
        serve(EncoderService(load, layout.root), arguments.socket)
    finally:
        telemetry.shutdown()


if __name__ == "__main__":
    main()
