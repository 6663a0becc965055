"""A rollback changes flags and nothing else: real processes are the same before and after."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from socket import create_server
from typing import Any

import httpx
import pytest

from app.settings import ENV_PREFIX
from app.stores.layout import DataLayout
from app.supervise.process_table import TABLE_NAME, ProcessName, read_process_table
from tests.app.answer_world import QUESTION, put_flags
from tests.app.video_world import small_clip, wait_until
from tests.fakes import FakeLlmServer
from tests.flags.flag_files import serving

BY = {"who": "ana", "why": "a test"}
UNTOUCHED = (
    "framegate_decode_workers_started_total",
    "framegate_encoder_pictures_encoded_total",
    "framegate_process_restarts_total",
)


class Service:
    """A real `framegate serve` with a stand-in for the language model."""

    def __init__(self, data_dir: Path, llm_url: str) -> None:
        self.data_dir = data_dir
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
            [sys.executable, "-m", "app.cli", "serve"],
            env=kept | settings,
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


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    if importlib.util.find_spec("efficientnet_lite_pytorch") is None:
        pytest.skip("the encoder's packages are not installed (extra `demo`)")
    with FakeLlmServer() as llm:
        made = Service(tmp_path / "data", llm.url)
        try:
            wait_until(made.is_ready, 120.0)
            yield made
        finally:
            made.stop()


def test_a_rollback_leaves_the_processes_and_their_caches_as_they_were(
    service: Service, tmp_path: Path
) -> None:
    content = small_clip(tmp_path / "clip.mp4")
    video_id = service.http.post("/v1/videos", content=content).json()["video_id"]
    service.ask(video_id)
    start = {"candidate": "bolt", "stages": [100], "guards": ["fallback<=50%"], **BY}
    ways = ("command", "flag file", "kill switch")
    obeyed = []
    processes, counted = service.processes(), service.counted()
    for way in ways:
        rollout = service.http.post("/v1/rollouts", json=start).json()
        assert service.ask(video_id)["sampler"]["id"] == "bolt"
        _roll_back(service, way, rollout["rollout_id"])
        evidence = service.ask(video_id)
        obeyed.append(evidence["sampler"]["id"])
        assert set(evidence["caches"].values()) == {"hit"}
        _close(service, way, rollout["rollout_id"])

    assert obeyed == ["aks", "aks", "uniform"]
    assert None not in processes.values()
    assert set(processes) == {"gateway", "encoder"}
    assert service.processes() == processes
    assert service.counted() == counted


def _roll_back(service: Service, way: str, rollout_id: str) -> None:
    if way == "command":
        reply = service.http.post(f"/v1/rollouts/{rollout_id}/rollback", json=BY)
        assert reply.status_code == 200, reply.text
    elif way == "flag file":
        put_flags(service.data_dir / "flags.json", serving("aks"))
    else:
        service.http.put("/v1/kill-switch", json={"is_on": True, **BY})


def _close(service: Service, way: str, rollout_id: str) -> None:
    """End the rollout where the way back only paused it."""
    if way != "command":
        reply = service.http.post(f"/v1/rollouts/{rollout_id}/rollback", json=BY)
        assert reply.status_code == 200, reply.text
