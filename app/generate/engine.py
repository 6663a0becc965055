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
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


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
    has_bf16: bool
    """The processor calculates in bf16 (`calculates_in_bf16`)."""
    port: int


def calculates_in_bf16(cpu_info: str) -> bool:
    """Whether the text of /proc/cpuinfo names bf16 instructions (of AVX-512, AMX or Arm)."""
    return not BF16_FLAGS.isdisjoint(cpu_info.split())


@dataclass(frozen=True, slots=True)
class EngineCommand:
    command: tuple[str, ...]
    environment: Mapping[str, str]
    """Added to the environment that the process inherits."""
    url: str


def engine_command(options: EngineOptions) -> EngineCommand:
    """How to start the server. It reaches no network but the loopback interface."""
    # The last core is for the gateway and the encoder, and a thread that must share it holds the
    # others up at every step: on two busy cores, two threads made 1 token a second, one made 5.
    # vLLM would also pin its threads, which then wait for a core that others happen to use.
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
            # Without bf16 instructions, attention converts every value: half the speed.
            *("--dtype", "bfloat16" if options.has_bf16 else "float32"),
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
