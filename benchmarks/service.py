"""Starts a real `framegate serve` on a data folder of its own for a benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_server

import psutil

from app.cli_client import FramegateClient

START_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Service:
    url: str
    client: FramegateClient
    pid: int
    data_dir: Path
    log: Path

    def cpu_seconds(self) -> float:
        """CPU time of all processes of the service so far, ended workers included."""
        processes = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        total_s = 0.0
        for process in processes:
            times = process.cpu_times()
            total_s += times.user + times.system + times.children_user + times.children_system
        return total_s


def free_port() -> int:
    with create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running_service(data_dir: Path, settings: Mapping[str, str]) -> Iterator[Service]:
    """A service that can answer; `settings` are environment variables. Stopped at the end."""
    port = free_port()
    environment = {
        **os.environ,
        **settings,
        "FRAMEGATE_DATA_DIR": str(data_dir),
        "FRAMEGATE_PORT": str(port),
    }
    log_path = data_dir / "serve.log"
    data_dir.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve"], env=environment, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        with FramegateClient(url, None) as client:
            _wait_until_ready(client, process, log_path)
            yield Service(url, client, process.pid, data_dir, log_path)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait_until_ready(
    client: FramegateClient, process: subprocess.Popen[bytes], log_path: Path
) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the service stopped while starting; see {log_path}")
        if (client.readiness() or {}).get("is_ready"):
            return
        time.sleep(0.2)
    raise RuntimeError(f"the service was not ready within {START_TIMEOUT_S:g} s; see {log_path}")
