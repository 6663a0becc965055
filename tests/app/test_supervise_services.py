"""app/supervise/services.py: what is started, on which socket, and what is refused."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from app.settings import Settings
from app.stores.layout import DataLayout
from app.supervise.engine_service import engine_service
from app.supervise.process_table import ServiceState
from app.supervise.services import PortInUseError, bind, build_specs, serve, status, stop
from app.supervise.supervisor import Supervisor, supervisor_lock

pytestmark = pytest.mark.anyio

START_TIMEOUT_S = 60.0


def make_settings(data_dir: Path, **changes: object) -> Settings:
    """A service on a free port, with a language model that is somewhere else."""
    fields = {"data_dir": data_dir, "port": 0, "llm_url": "http://127.0.0.1:9"}
    return Settings.model_validate(fields | changes)


def test_the_language_model_is_ours_to_run_unless_an_address_is_given(tmp_path: Path) -> None:
    with bind(make_settings(tmp_path)) as listener:
        given = build_specs(make_settings(tmp_path), listener)
        ours = build_specs(make_settings(tmp_path, llm_url=None), listener)
    assert [spec.name for spec in given] == ["gateway", "encoder"]
    assert [spec.name for spec in ours] == ["gateway", "encoder", "llm"]


def test_the_gateway_is_told_the_port_and_the_language_models_address(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, llm_url=None)
    with bind(settings) as listener:
        gateway, _, llm = build_specs(settings, listener)
        port = listener.getsockname()[1]
    assert gateway.address == f"http://127.0.0.1:{port}"
    assert gateway.environment["FRAMEGATE_PORT"] == str(port)
    assert gateway.environment["FRAMEGATE_LLM_URL"] == llm.address
    assert "FRAMEGATE_OPERATOR_KEY" not in gateway.environment
    # Selections must not depend on how many threads a machine has.
    assert gateway.environment["OPENBLAS_NUM_THREADS"] == "1"


def test_settings_reach_the_children_and_secrets_no_command_line(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, operator_key="s3cret", max_frames=7)
    with bind(settings) as listener:
        specs = build_specs(settings, listener)
    assert specs[0].environment["FRAMEGATE_OPERATOR_KEY"] == "s3cret"
    assert specs[0].environment["FRAMEGATE_MAX_FRAMES"] == "7"
    assert not any("s3cret" in part for spec in specs for part in spec.command)


def test_the_engine_serves_the_model_by_its_name_in_the_settings(tmp_path: Path) -> None:
    command = engine_service(make_settings(tmp_path, llm_context_tokens=777)).command
    assert command[command.index("--served-model-name") + 1] == "smollm2-135m-instruct"
    assert command[command.index("--max-model-len") + 1] == "777"


def test_a_port_in_use_is_refused_with_advice(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"{port}.*FRAMEGATE_PORT"):
            bind(make_settings(tmp_path, port=port))


async def test_serve_says_why_it_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with supervisor_lock(DataLayout(tmp_path).run):
        assert await serve(make_settings(tmp_path)) == 2
    assert "already runs" in capsys.readouterr().err


async def test_where_nothing_runs_there_is_nothing_to_stop(tmp_path: Path) -> None:
    assert status(make_settings(tmp_path)) is None
    assert not await stop(make_settings(tmp_path))


@asynccontextmanager
async def running_gateway(settings: Settings) -> AsyncIterator[tuple[Supervisor, str]]:
    """Only the gateway: the encoder and the language model are away."""
    layout = DataLayout(settings.data_dir.resolve())
    layout.create()
    with bind(settings) as listener:
        gateway = build_specs(settings, listener)[0]
        supervisor = Supervisor([gateway], layout.run)
        task = asyncio.create_task(supervisor.run())
        try:
            await until_ready(supervisor, restarts=0)
            yield supervisor, gateway.address
        finally:
            supervisor.ask_to_stop()
            await task


async def until_ready(supervisor: Supervisor, restarts: int) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            row = supervisor.rows[0]
            if row.state is ServiceState.READY and row.restarts >= restarts:
                return
            await asyncio.sleep(0.05)


async def test_a_killed_gateway_comes_back_and_refuses_no_connection_meanwhile(
    tmp_path: Path,
) -> None:
    async with (
        running_gateway(make_settings(tmp_path)) as (supervisor, url),
        httpx.AsyncClient(trust_env=False, timeout=START_TIMEOUT_S) as client,
    ):
        assert (await client.get(f"{url}/healthz")).status_code == 200
        leader = supervisor.rows[0].leader
        assert leader is not None
        os.kill(leader.pid, signal.SIGKILL)
        await asyncio.sleep(0.2)
        assert (await client.get(f"{url}/healthz")).status_code == 200
        await until_ready(supervisor, restarts=1)


async def test_a_client_on_this_machine_is_seen_as_such_through_the_inherited_socket(
    tmp_path: Path,
) -> None:
    async with (
        running_gateway(make_settings(tmp_path)) as (_, url),
        httpx.AsyncClient(trust_env=False, timeout=START_TIMEOUT_S) as client,
    ):
        # Without an operator key, only loopback clients may look at the switch or set it.
        response = await client.put(
            f"{url}/v1/kill-switch", json={"is_on": False, "who": "test", "why": "test"}
        )
    assert response.status_code == 200
