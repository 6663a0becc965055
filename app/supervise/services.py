"""The service as processes: language model, encoder and gateway; and how to run and stop them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time

import httpx

from app.decoding.config import decode_config
from app.encoders import wire
from app.generate.smollm2 import ModelMissingError
from app.settings import Settings, child_environment
from app.stores.layout import DataLayout
from app.supervise.engine_service import engine_service
from app.supervise.process_table import TABLE_NAME, ProcessName, ProcessTable, read_process_table
from app.supervise.service import ServiceSpec
from app.supervise.stale_processes import StaleProcessesError, is_alive, this_world
from app.supervise.supervisor import AlreadyRunningError, Supervisor, supervisor_lock
from observability.logs import configure_logging

GATEWAY, ENCODER = "gateway", "encoder"
GATEWAY_START_TIMEOUT_S = 60.0
ENCODER_START_TIMEOUT_S = 180.0
CHECK_TIMEOUT_S = 5.0
NO_KEEP_ALIVE = httpx.Limits(max_keepalive_connections=0)
"""Clients of health checks live as long as we do (each costs 40 ms) and hold nothing to close."""
LISTEN_BACKLOG = 2048
STOP_POLL_S = 0.05
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""A product takes 0.3 ms in one thread; waking a second one took 8 ms on an idle machine."""
EXIT_REFUSED = 2

logger = logging.getLogger(__name__)


class PortInUseError(RuntimeError):
    """The address that the gateway shall listen on cannot be had."""


REFUSALS = (AlreadyRunningError, PortInUseError, ModelMissingError, StaleProcessesError)
"""Why `serve` does not start; each text tells what to do."""


def bind(settings: Settings) -> socket.socket:
    """The gateway's listening socket: bound before anything starts, kept over its restarts.

    Raises `PortInUseError`.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=LISTEN_BACKLOG)
    except OSError as exc:
        raise PortInUseError(
            f"Cannot listen on {settings.host}:{settings.port} ({exc.strerror}). "
            "Choose another port by --port or FRAMEGATE_PORT; 0 picks a free one."
        ) from exc
    return listener


def build_specs(settings: Settings, listener: socket.socket) -> list[ServiceSpec]:
    """In the order in which they are ended: what calls before what is called.

    Raises `ModelMissingError` when the LLM is ours to run and its weights are not installed.
    """
    engine = engine_service(settings) if settings.llm_url is None else None
    llm_url = settings.llm_url if engine is None else engine.address
    gateway = _gateway_spec(settings.model_copy(update={"llm_url": llm_url}), listener)
    return [gateway, _encoder_spec(settings), *([engine] if engine else [])]


def _gateway_spec(settings: Settings, listener: socket.socket) -> ServiceSpec:
    port = listener.getsockname()[1]
    settings = settings.model_copy(update={"port": port})
    url = settings.local_url
    client = httpx.AsyncClient(trust_env=False, timeout=CHECK_TIMEOUT_S, limits=NO_KEEP_ALIVE)
    grace_s = max(1, round(settings.shutdown_grace_s))
    return ServiceSpec(
        name=GATEWAY,
        command=(
            *(sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory"),
            *("--fd", str(listener.fileno())),
            *("--http", "app.api.http_protocol:BoundedHttpProtocol"),
            *("--timeout-graceful-shutdown", str(grace_s)),
            # Requests have spans and metrics; a line for each check of health would drown the rest.
            *("--ws", "none", "--log-level", "warning", "--no-server-header"),
        ),
        environment=child_environment(settings, ONE_BLAS_THREAD),
        address=url,
        is_healthy=lambda: _answers(client, f"{url}/healthz"),
        start_timeout_s=GATEWAY_START_TIMEOUT_S,
        # Uvicorn cancels what is left after its own grace; then the lifespan ends.
        stop_grace_s=grace_s + 5.0,
        inherited_fds=(listener.fileno(),),
    )


def _encoder_spec(settings: Settings) -> ServiceSpec:
    path = DataLayout(settings.data_dir.resolve()).encoder_socket
    client = httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(path), limits=NO_KEEP_ALIVE),
        timeout=CHECK_TIMEOUT_S,
    )
    return ServiceSpec(
        name=ENCODER,
        command=(
            *(sys.executable, "-m", "app.encoders.server"),
            *("--socket", str(path)),
            *("--data-dir", str(settings.data_dir.resolve())),
            *("--decode-version", decode_config(settings).decode_version),
            *("--threads", str(settings.encoder_threads)),
        ),
        environment=child_environment(settings, {}),
        address=f"unix:{path}",
        is_healthy=lambda: _answers(client, f"http://encoder{wire.INFO}"),
        start_timeout_s=ENCODER_START_TIMEOUT_S,
    )


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


async def serve(settings: Settings) -> int:
    """Run the service until SIGTERM or SIGINT; the exit code of the command."""
    configure_logging(settings.log_level, as_json=settings.log_format == "json")
    layout = DataLayout(settings.data_dir.resolve())
    try:
        layout.create()
        with supervisor_lock(layout.run), bind(settings) as listener:
            supervisor = Supervisor(build_specs(settings, listener), layout.run)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.add_signal_handler(number, supervisor.ask_to_stop)
            await supervisor.run()
    except (*REFUSALS, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return EXIT_REFUSED
    return 0


def status(settings: Settings) -> ProcessTable | None:
    """The processes of the service that runs on this data folder; None when none does."""
    table = read_process_table(DataLayout(settings.data_dir.resolve()).run / TABLE_NAME)
    if table is None or table.world != this_world() or not is_alive(table.supervisor):
        return None
    return table


async def stop(settings: Settings) -> bool:
    """Stop the service of this data folder and wait until it is gone; False when none runs.

    Running answers get `shutdown_grace_s` to finish.
    """
    table = status(settings)
    if table is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(table.supervisor.pid, signal.SIGTERM)
    await asyncio.to_thread(_wait_until_gone, table.supervisor)
    return True


def _wait_until_gone(process: ProcessName) -> None:
    while is_alive(process):
        time.sleep(STOP_POLL_S)
