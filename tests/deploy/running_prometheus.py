"""A real Prometheus with the project's configuration, which scrapes one gateway every second."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.app.video_world import wait_until
from tests.deploy.deployed_files import ALERTS, PROMETHEUS, program, read_yaml

START_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Prometheus:
    client: httpx.Client

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API that must succeed."""
        reply = self.client.get(f"/api/v1/{path}", params=parameters)
        document = reply.json()
        assert document["status"] == "success", (parameters, document)
        return document["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def firing(self) -> set[str]:
        return {rule["name"] for rule in self.rules() if rule["state"] == "firing"}


def configuration(gateway_url: str) -> dict[str, Any]:
    """The project's own, but for the gateway's address and the pace; JSON is YAML too."""
    config: dict[str, Any] = read_yaml(PROMETHEUS)
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config["global"]["evaluation_interval"] = "1s"
    config["rule_files"] = [str(ALERTS)]
    jobs = [job for job in config["scrape_configs"] if job["job_name"] == "framegate"]
    jobs[0]["static_configs"] = [{"targets": [urlsplit(gateway_url).netloc]}]
    config["scrape_configs"] = jobs
    return config


@contextmanager
def scraping(gateway_url: str, folder: Path) -> Iterator[Prometheus]:
    """Prometheus, from its first scrape on; ended with the block. Skips where it is absent."""
    binary = program("prometheus")
    config_path = folder / "prometheus.json"
    config_path.write_text(json.dumps(configuration(gateway_url)))
    address = f"127.0.0.1:{_free_port()}"
    command = [
        binary,
        f"--config.file={config_path}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    log_path = folder / "prometheus.log"
    with log_path.open("w") as log, httpx.Client(base_url=f"http://{address}") as client:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            prometheus = Prometheus(client)
            wait_until(lambda: _is_up(prometheus, process, log_path), START_TIMEOUT_S)
            yield prometheus
        finally:
            process.terminate()
            process.wait(20)


def _is_up(prometheus: Prometheus, process: subprocess.Popen[bytes], log_path: Path) -> bool:
    assert process.poll() is None, log_path.read_text()
    try:
        return bool(prometheus.query("up == 1"))
    except (httpx.TransportError, json.JSONDecodeError):
        return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
