"""The README's first command, as a user runs it: real processes, real clip, real engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from socket import create_server

import httpx
import psutil
import pytest

from app.generate.smollm2 import make_model
from app.stores.layout import DataLayout
from app.supervise.process_table import TABLE_NAME, ProcessTable, read_process_table
from tests.app.engine import MODELS

pytestmark = pytest.mark.engine

DEMO_TIMEOUT_S = 600.0
GONE_WITHIN_S = 5.0
CLIP_S = 10.0


class Demo:
    """`framegate demo` on a data folder and a port of its own."""

    def __init__(self, data_dir: Path) -> None:
        self.layout = DataLayout(data_dir)
        with create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "FRAMEGATE_DATA_DIR": str(self.layout.root),
            "FRAMEGATE_PORT": str(self.port),
            "COLUMNS": "200",
        }
        return subprocess.run(
            [sys.executable, "-m", "app.cli", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEMO_TIMEOUT_S,
            check=False,
        )

    def table(self) -> ProcessTable:
        table = read_process_table(self.layout.run / TABLE_NAME)
        assert table is not None
        return table

    def processes(self) -> list[psutil.Process]:
        """The supervisor and everything below it."""
        supervisor = psutil.Process(self.table().supervisor.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def metric(self, name: str) -> float:
        lines = httpx.get(f"{self.url}/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    data_dir = tmp_path_factory.mktemp("demo")
    make_model(MODELS, lambda _: None)
    (data_dir / "models").symlink_to(MODELS)
    made = Demo(data_dir)
    yield made
    made.command("stop")


def wait_until_gone(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run after the grace, zombies aside."""
    _, alive = psutil.wait_procs(processes, timeout=GONE_WITHIN_S)
    return [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def ask(demo: Demo, video_id: str, question: str) -> dict[str, object]:
    done = demo.command("ask", video_id, question, "--json", "--max-tokens", "16")
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def only_video(demo: Demo) -> str:
    return str(httpx.get(f"{demo.url}/v1/videos").json()["videos"][0]["video_id"])


def test_the_demo_answers_three_questions_with_evidence_inside_the_clip(demo: Demo) -> None:
    done = demo.command("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    frames = re.findall(r"^frames +(.+)$", done.stdout, re.MULTILINE)
    assert len(frames) == 3
    seconds = [float(s) for line in frames for s in re.findall(r"([\d.]+) s", line)]
    assert seconds
    assert all(0 <= second <= CLIP_S for second in seconds)
    assert "fallback" not in done.stdout
    assert "make stop" in done.stdout


def test_a_question_decodes_nothing_and_encodes_no_picture(demo: Demo) -> None:
    names = ("framegate_decode_workers_started", "framegate_encoder_pictures_encoded")
    before = [demo.metric(name) for name in names]
    ask(demo, only_video(demo), "Is there a bicycle?")
    assert [demo.metric(name) for name in names] == before
    assert before[0] == 1


def test_after_kill_9_of_the_encoder_questions_are_still_answered(demo: Demo) -> None:
    row = demo.table().service("encoder")
    assert row is not None
    assert row.leader is not None
    os.kill(row.leader.pid, signal.SIGKILL)
    answer = ask(demo, only_video(demo), "Is there a street?")
    assert answer["state"] == "done"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if httpx.get(f"{demo.url}/readyz").status_code == 200:
            break
        time.sleep(0.2)
    else:
        pytest.fail("the encoder did not come back")
    evidence = ask(demo, only_video(demo), "Which colour is the bus?")["evidence"]
    assert isinstance(evidence, dict)
    assert evidence["sampler"]["fallback"] is None


def test_after_kill_9_of_serve_nothing_is_left_and_the_next_start_works(demo: Demo) -> None:
    processes = demo.processes()
    assert len(processes) >= 6
    os.kill(processes[0].pid, signal.SIGKILL)
    assert wait_until_gone(processes) == []
    again = demo.command("demo")
    assert again.returncode == 0, again.stdout + again.stderr
    assert list(DataLayout(demo.layout.root).temporary.iterdir()) == []


def test_stop_ends_everything(demo: Demo) -> None:
    processes = demo.processes()
    assert demo.command("stop").returncode == 0
    assert wait_until_gone(processes) == []
