"""The real vLLM engine with the tiny vision-language model; it can be killed and started again."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

import cv2
import httpx
import numpy as np

from app.generate.engine import HOST, SERVER_MODULE
from app.generate.preload import PRELOAD_PATH
from app.scorer.prompts import frame_prompt
from tests.app.scored_video import MODEL

READY_TIMEOUT_S = 900.0
MAX_PICTURES = 64
"""In one prompt: the server refuses more."""
CONTEXT_TOKENS = 8192
PICTURE_PX = 56
_CHILD_ENVIRONMENT = {
    "PYTHONPATH": PRELOAD_PATH,
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


class VlmEngine:
    """A process group of its own. Use as `with`; nothing runs before `start`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"http://{HOST}:{port}"
        self._folder = folder
        self._port = port
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def make_model(self) -> None:
        """In another process: torch stays out of this one."""
        subprocess.run(
            [sys.executable, "-m", "tests.app.tiny_vlm", str(self._folder / "model")],
            env=os.environ | _CHILD_ENVIRONMENT,
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        """And wait until it answers; its first picture takes as long as many later ones."""
        with self._log.open("ab") as log:
            self._process = self._started(log)
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None, self._log_end()
            assert time.monotonic() < deadline_s, self._log_end()
            time.sleep(0.5)
        pixels = np.zeros((PICTURE_PX, PICTURE_PX, 3), dtype=np.uint8)
        data = base64.b64encode(cv2.imencode(".jpg", pixels)[1].tobytes()).decode()
        body = {
            "model": MODEL,
            "max_tokens": 1,
            "messages": [
                {"role": "user", "content": frame_prompt("?", f"data:image/jpeg;base64,{data}")}
            ],
        }
        url = f"{self.url}/v1/chat/completions"
        reply = httpx.post(url, json=body, timeout=READY_TIMEOUT_S, trust_env=False)
        assert reply.status_code == 200, reply.text

    def kill(self) -> None:
        """With its engine core, at once and without a word."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def num_steps(self) -> float:
        """That the engine has taken, by its own metrics: each serves all requests of a batch."""
        text = httpx.get(f"{self.url}/metrics", timeout=30, trust_env=False).text
        name = "vllm:iteration_tokens_total_count"
        lines = [line for line in text.splitlines() if line.startswith(name)]
        assert lines, text
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def __enter__(self) -> VlmEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def _started(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", SERVER_MODULE),
                *("--host", HOST, "--port", str(self._port)),
                *("--model", str(self._folder / "model"), "--served-model-name", MODEL),
                *("--max-model-len", str(CONTEXT_TOKENS), "--dtype", "float32"),
                *("--limit-mm-per-prompt", f'{{"image": {MAX_PICTURES}}}'),
                *("--uvicorn-log-level", "warning", "--enforce-eager"),
            ],
            env=os.environ | _CHILD_ENVIRONMENT,
            stdout=log,
            stderr=log,
            process_group=0,
        )

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def _log_end(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
