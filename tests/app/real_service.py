"""A whole service in processes of its own: gateway, encoder, and a stand-in for the LLM."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Any

import httpx
import pytest

from app.settings import ENV_PREFIX
from app.stores.layout import DataLayout
from app.supervise.process_table import TABLE_NAME, ProcessName, read_process_table
from tests.app.answer_world import QUESTION
from tests.app.video_world import wait_until
from tests.fakes import FakeLlmServer

UNTOUCHED = (
    "framegate_decode_workers_started_total",
    "framegate_encoder_pictures_encoded_total",
    "framegate_process_restarts_total",
)
START_TIMEOUT_S = 120.0


class Service:
    """A real `framegate serve` of an environment, this one's by default; its LLM is at `llm_url`.

    It starts in its data folder, so that nothing is found by lying in the working directory.
    """

    def __init__(self, data_dir: Path, llm_url: str, python: Path = Path(sys.executable)) -> None:
        self.data_dir = data_dir
        data_dir.mkdir()
        with create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX)}
        settings = {
            "FRAMEGATE_DATA_DIR": str(data_dir),
            "FRAMEGATE_PORT": str(port),
            "FRAMEGATE_LLM_URL": llm_url,
            "FRAMEGATE_MIN_FREE_DISK_BYTES": "0",
            "FRAMEGATE_SELECTION_DEADLINE_S": "5",
        }
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0)
        self.process = subprocess.Popen(
            [python, "-m", "app.cli", "serve"],
            env=kept | settings,
            cwd=data_dir,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def is_ready(self) -> bool:
        assert self.process.poll() is None
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def processes(self) -> dict[str, ProcessName | None]:
        """The leading process of each service; its name holds pid and start."""
        table = read_process_table(DataLayout(self.data_dir).run / TABLE_NAME)
        assert table is not None
        rows = {name: table.service(name) for name in ("gateway", "encoder")}
        return {name: row.leader for name, row in rows.items() if row is not None}

    def counted(self) -> dict[str, float]:
        lines = self.http.get("/metrics").text.splitlines()
        return {
            name: sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))
            for name in UNTOUCHED
        }

    def ask(self, video_id: str) -> dict[str, Any]:
        body = {"video_id": video_id, "question": QUESTION, "user_id": "u1", "wait_s": 60}
        reply = self.http.post("/v1/answers", json=body)
        assert reply.status_code == 200, reply.text
        evidence: dict[str, Any] = reply.json()["evidence"]
        return evidence

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        self.http.close()


@contextmanager
def running_service(data_dir: Path, python: Path = Path(sys.executable)) -> Iterator[Service]:
    """Ready; skips the test where the encoder's packages are not installed."""
    if importlib.util.find_spec("efficientnet_lite_pytorch") is None:
        pytest.skip("the encoder's packages are not installed (extra `demo`)")
    with FakeLlmServer() as llm:
        made = Service(data_dir, llm.url, python)
        try:
            wait_until(made.is_ready, START_TIMEOUT_S)
            yield made
        finally:
            made.stop()
