"""The vLLM server as a supervised service."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from app.generate.engine import EngineOptions, calculates_in_bf16, engine_command
from app.generate.openai_client import OpenAIChatModel
from app.generate.smollm2 import gguf_file, model_folder
from app.settings import Settings, child_environment
from app.stores.layout import DataLayout
from app.supervise.service import ServiceSpec

LLM = "llm"


def engine_service(settings: Settings) -> ServiceSpec:
    """A free port is chosen now and kept over restarts, so that the gateway can be told it.

    Raises `ModelMissingError` when the weights are not installed.
    """
    layout = DataLayout(settings.data_dir.resolve())
    engine = engine_command(
        EngineOptions(
            models=layout.models,
            model_folder=model_folder(layout.models, gguf_file()),
            model_name=settings.llm_model,
            context_tokens=settings.llm_context_tokens,
            kv_cache_gib=settings.llm_kv_cache_gib,
            num_cores=len(os.sched_getaffinity(0)),
            has_bf16=calculates_in_bf16(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
            port=_free_port(),
        )
    )

    # One for all checks: making it costs 40 ms. It keeps no connection, so it needs no closing.
    client = OpenAIChatModel(engine.url, settings.llm_model)
    return ServiceSpec(
        name=LLM,
        command=engine.command,
        environment=child_environment(settings, engine.environment),
        address=engine.url,
        is_healthy=client.is_healthy,
        start_timeout_s=settings.llm_start_timeout_s,
        log_file=layout.run / "llm.log",
    )


def _free_port() -> int:
    """One that nobody listens on now; a server that loses the race for it is started again."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
