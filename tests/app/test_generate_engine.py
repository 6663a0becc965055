"""The real vLLM engine: its command line, and answers, cancelling and deaths of the live server."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

import anyio
import numpy as np
import pytest

from app.errors import QuestionTooLongError
from app.generate import PromptRules, generate
from app.generate.contract import ChatMessage, GenerationOptions, TextDelta, Usage
from app.generate.engine import EngineOptions, calculates_in_bf16, engine_command
from app.generate.openai_client import OpenAIChatModel
from app.generate.token_counter import TokenCounter
from app.reduce.contract import ReducedTokens
from app.supervise.process_table import ProcessName, ServiceRow
from app.supervise.stale_processes import group_members
from tests.app.engine import CONTEXT_TOKENS, RunningEngine
from tests.app.processes import is_running, until

MODEL = "smollm2-135m-instruct"
LABELS = ("mountain bike", "crash helmet", "pier", "taxicab")
STORY = [ChatMessage("user", "Write a long story about a bicycle.")]


def options(num_cores: int = 2, *, has_bf16: bool = True) -> EngineOptions:
    return EngineOptions(
        models=Path("/models"),
        model_folder=Path("/models/it"),
        model_name=MODEL,
        context_tokens=2048,
        kv_cache_gib=2,
        num_cores=num_cores,
        has_bf16=has_bf16,
        port=1234,
    )


def test_the_server_listens_on_the_loopback_interface_only() -> None:
    engine = engine_command(options())
    assert engine.url == "http://127.0.0.1:1234"
    assert engine.command[engine.command.index("--host") + 1] == "127.0.0.1"
    assert engine.command[engine.command.index("--port") + 1] == "1234"


def test_the_server_asks_no_hub_and_tells_nobody() -> None:
    environment = engine_command(options()).environment
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["VLLM_NO_USAGE_STATS"] == "1"
    assert environment["DO_NOT_TRACK"] == "1"


@pytest.mark.parametrize(("num_cores", "num_threads"), [(1, "1"), (2, "1"), (8, "7")])
def test_one_core_is_left_to_the_gateway(num_cores: int, num_threads: str) -> None:
    assert engine_command(options(num_cores)).environment["OMP_NUM_THREADS"] == num_threads


@pytest.mark.parametrize(("has_bf16", "dtype"), [(True, "bfloat16"), (False, "float32")])
def test_the_model_runs_in_a_type_that_the_processor_calculates_in(
    has_bf16: bool, dtype: str
) -> None:
    command = engine_command(options(has_bf16=has_bf16)).command
    assert command[command.index("--dtype") + 1] == dtype


@pytest.mark.parametrize(
    ("flags", "has_bf16"),
    [
        ("flags\t\t: fpu avx2 fma", False),
        ("flags\t\t: avx512f avx512_bf16 fma", True),
        ("Features\t: asimd bf16", True),
        ("", False),
    ],
)
def test_bf16_instructions_are_told_from_the_processors_flags(flags: str, has_bf16: bool) -> None:
    assert calculates_in_bf16(f"processor\t: 0\n{flags}\n") is has_bf16


async def ask(
    url: str, messages: list[ChatMessage], options: GenerationOptions
) -> tuple[str, Usage]:
    model = OpenAIChatModel(url, MODEL)
    try:
        pieces = [piece async for piece in model.stream(messages, options)]
    finally:
        await model.aclose()
    usage = pieces.pop()
    assert isinstance(usage, Usage)
    return "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)), usage


@pytest.mark.engine
@pytest.mark.anyio
async def test_notes_are_answered_and_the_prompt_is_as_long_as_we_counted(
    engine_url: str, running_engine: RunningEngine
) -> None:
    counter = TokenCounter(running_engine.model_folder)
    tokens = np.eye(4, dtype=np.float32)
    spans = np.array([(0, 1), (1, 1), (2, 3), (3, 3)], dtype=np.int64)
    reduced = ReducedTokens(tokens, spans, np.zeros(4, dtype=np.int64), 8)
    counted: list[int] = []

    def count(messages: Sequence[ChatMessage]) -> int:
        counted.append(counter.count_messages(messages))
        return counted[-1]

    model = OpenAIChatModel(engine_url, MODEL)
    times_s = np.array([0.0, 2.5, 7.0, 9.9])
    stream = generate(
        "What vehicles can be seen?",
        reduced,
        times_s,
        PromptRules(LABELS, CONTEXT_TOKENS, count),
        model,
        GenerationOptions(max_tokens=32),
    )
    pieces = [piece async for piece in stream]
    await model.aclose()
    *texts, usage = pieces
    assert len(texts) > 1
    assert all(isinstance(text, TextDelta) for text in texts)
    assert isinstance(usage, Usage)
    assert usage.input_tokens == counted[-1]
    assert 0 < usage.output_tokens <= 32


@pytest.mark.engine
@pytest.mark.anyio
async def test_temperature_zero_and_a_seed_each_repeat_the_answer(engine_url: str) -> None:
    for repeatable in (
        GenerationOptions(max_tokens=12),
        GenerationOptions(max_tokens=12, temperature=1.0, seed=5),
    ):
        first, usage = await ask(engine_url, STORY, repeatable)
        again, _ = await ask(engine_url, STORY, repeatable)
        assert first == again
        assert usage.output_tokens == 12
        assert usage.finish_reason == "length"


@pytest.mark.engine
@pytest.mark.anyio
async def test_a_prompt_beyond_the_context_is_a_question_that_is_too_long(engine_url: str) -> None:
    with pytest.raises(QuestionTooLongError):
        await ask(
            engine_url,
            [ChatMessage("user", "bicycle " * CONTEXT_TOKENS)],
            GenerationOptions(max_tokens=8),
        )


@pytest.mark.engine
@pytest.mark.anyio
async def test_a_reader_that_leaves_stops_the_generation(
    engine_url: str, running_engine: RunningEngine
) -> None:
    model = OpenAIChatModel(engine_url, MODEL)
    async with aclosing(model.stream(STORY, GenerationOptions(max_tokens=900))) as pieces:
        await anext(pieces)
        assert await anyio.to_thread.run_sync(running_engine.num_running) == 1
    await model.aclose()
    # 900 tokens take minutes; stopped, the engine is idle after the step it was in.
    assert await anyio.to_thread.run_sync(until, lambda: running_engine.num_running() == 0, 10.0)


@pytest.mark.engine
@pytest.mark.anyio
async def test_a_killed_engine_core_is_replaced(
    engine_url: str, running_engine: RunningEngine
) -> None:
    row = running_engine.row
    members = group_members(leader_of(row))
    os.kill(next(stat.pid for stat in members if is_engine_core(stat.pid)), signal.SIGKILL)
    await anyio.to_thread.run_sync(running_engine.wait_until_ready, row.restarts + 1)
    assert not any(is_running(stat.pid) for stat in members)
    text, _ = await ask(engine_url, STORY, GenerationOptions(max_tokens=4))
    assert text


@pytest.mark.engine
@pytest.mark.anyio
async def test_a_killed_api_server_leaves_no_engine_core(
    engine_url: str, running_engine: RunningEngine
) -> None:
    leader = leader_of(running_engine.row)
    members = group_members(leader)
    assert any(is_engine_core(stat.pid) for stat in members)
    os.kill(leader.pid, signal.SIGKILL)
    all_are_gone = partial(until, lambda: not any(is_running(stat.pid) for stat in members), 5.0)
    assert await anyio.to_thread.run_sync(all_are_gone)


def leader_of(row: ServiceRow) -> ProcessName:
    assert row.leader is not None
    return row.leader


def is_engine_core(pid: int) -> bool:
    return "EngineCore" in Path(f"/proc/{pid}/cmdline").read_text()
