"""The real vLLM engine for tests: supervised as in the service, started once for all of them."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import httpx

from app.generate.smollm2 import make_model
from app.settings import Settings
from app.stores.layout import DataLayout
from app.supervise.engine_service import engine_service
from app.supervise.process_table import ServiceRow, ServiceState
from app.supervise.supervisor import Supervisor

MODELS = Path(__file__).resolve().parents[2] / ".framegate" / "models"
"""Of the default data folder: made once, then shared with `make demo`."""
CONTEXT_TOKENS = 1024
READY_TIMEOUT_S = 420.0


class RunningEngine:
    """A supervisor with the engine as its only service, in a thread. Use as `with`."""

    def __init__(self, data_dir: Path) -> None:
        """`data_dir` must not exist; the models of the default data folder are used."""
        self.model_folder = make_model(MODELS, lambda _: None)
        layout = DataLayout(data_dir)
        layout.run.mkdir(parents=True)
        layout.models.symlink_to(MODELS)
        self._run_folder = layout.run
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._supervisor: Supervisor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        settings = Settings(
            data_dir=data_dir,
            llm_context_tokens=CONTEXT_TOKENS,
            llm_start_timeout_s=READY_TIMEOUT_S,
        )
        self._spec = engine_service(settings)

    @property
    def url(self) -> str:
        return self._spec.address

    @property
    def row(self) -> ServiceRow:
        assert self._supervisor is not None
        return self._supervisor.rows[0]

    def wait_until_ready(self, restarts: int = 0) -> ServiceRow:
        """Until it is ready and was started again at least so often."""
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not (self.row.state is ServiceState.READY and self.row.restarts >= restarts):
            assert time.monotonic() < deadline_s, f"engine not ready: {self.row}\n{self._log()}"
            time.sleep(0.1)
        return self.row

    def num_running(self) -> float:
        """Requests that the engine is working on now, by its own metrics."""
        text = httpx.get(f"{self.url}/metrics", timeout=30, trust_env=False).text
        lines = [line for line in text.splitlines() if line.startswith("vllm:num_requests_running")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def __enter__(self) -> RunningEngine:
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._supervisor is not None
        self._loop.call_soon_threadsafe(self._supervisor.ask_to_stop)
        self._thread.join(60)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._supervisor = Supervisor([self._spec], self._run_folder)
        self._started.set()
        await self._supervisor.run()

    def _log(self) -> str:
        file = self._run_folder / "llm.log"
        return file.read_text(errors="replace")[-3000:] if file.exists() else "no log"
