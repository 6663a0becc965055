"""The command line and environment of the vLLM server that the supervisor runs. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.generate.preload import PRELOAD_PATH

SERVER_MODULE = "vllm.entrypoints.openai.api_server"
"""The `vllm` command needs a distribution of that name; the CPU build has another."""
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`num_cores` is how many the whole service may use."""

    models: Path
    """Folder in which the model is made when missing."""
    model_folder: Path
    model_name: str
    context_tokens: int
    kv_cache_gib: int
    num_cores: int
    port: int


@dataclass(frozen=True, slots=True)
class EngineCommand:
    command: tuple[str, ...]
    environment: Mapping[str, str]
    """Added to the environment that the process inherits."""
    url: str


def engine_command(options: EngineOptions) -> EngineCommand:
    """How to start the server. It reaches no network but the loopback interface."""
    # A second thread on the last core made every step wait for whichever thread was scheduled
    # last: 1 token a second instead of 5 on two busy cores. vLLM reserves a core too; it also pins
    # its threads, which leaves them waiting for a core that the encoder happens to use.
    num_threads = max(1, options.num_cores - 1)
    return EngineCommand(
        command=(
            *(sys.executable, "-m", "app.generate.vllm_server"),
            *("--models", str(options.models), "--"),
            *(sys.executable, "-m", SERVER_MODULE),
            *("--host", HOST),
            *("--port", str(options.port)),
            *("--model", str(options.model_folder)),
            *("--served-model-name", options.model_name),
            *("--max-model-len", str(options.context_tokens)),
            *("--dtype", "bfloat16"),
            *("--uvicorn-log-level", "warning"),
            "--enforce-eager",
        ),
        environment={
            "PYTHONPATH": PRELOAD_PATH,
            "OMP_NUM_THREADS": str(num_threads),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CPU_KVCACHE_SPACE": str(options.kv_cache_gib),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        },
        url=f"http://{HOST}:{options.port}",
    )
