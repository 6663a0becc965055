from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry.trace import StatusCode

from observability.names import Outcome, Span, Stage
from observability.stages import (
    carrying_context,
    current_trace_id,
    extracted_context,
    inject_context,
    run_in_thread,
    span,
    stage,
)
from tests.observability.conftest import World

ROOT = Path(__file__).resolve().parents[2]
COUNT = "framegate_stage_duration_seconds_count"


@pytest.mark.parametrize("name", list(Stage))
def test_a_stage_is_one_span_and_one_observation(world: World, name: Stage) -> None:
    with world.telemetry.activated(), stage(name, num_frames=3) as timer:
        assert timer.seconds >= 0
    recorded = world.spans[name]
    assert (recorded.attributes or {})["framegate.num_frames"] == 3
    assert recorded.status.status_code is StatusCode.UNSET
    assert world.sample(COUNT, stage=name, outcome="ok") == 1
    seconds_sum = world.sample("framegate_stage_duration_seconds_sum", stage=name, outcome="ok")
    assert seconds_sum == pytest.approx(timer.seconds)


def test_an_exception_makes_the_outcome_an_error(world: World) -> None:
    with world.telemetry.activated(), pytest.raises(ValueError, match="bad"), stage(Stage.ENCODE):
        raise ValueError("bad")
    recorded = world.spans["encode"]
    assert recorded.status.status_code is StatusCode.ERROR
    assert recorded.events[0].name == "exception"
    assert world.sample(COUNT, stage="encode", outcome="error") == 1
    assert world.sample(COUNT, stage="encode", outcome="ok") is None


@pytest.mark.anyio
async def test_a_cancelled_task_makes_the_outcome_cancelled_not_an_error(world: World) -> None:
    async def generate() -> None:
        with world.telemetry.activated(), stage(Stage.GENERATE):
            await asyncio.sleep(60)

    task = asyncio.create_task(generate())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.spans["generate"].status.status_code is StatusCode.UNSET
    assert world.sample(COUNT, stage="generate", outcome="cancelled") == 1


def test_stages_are_children_of_the_answer_and_siblings_of_each_other(world: World) -> None:
    with world.telemetry.activated(), span(Span.ANSWER_QUESTION) as root:
        for name in (Stage.SELECT_FRAMES, Stage.ENCODE):
            with stage(name):
                pass
        root.set("num_videos", 1)
    root_context = world.spans["answer_question"].context
    assert root_context is not None
    for name in (Stage.SELECT_FRAMES, Stage.ENCODE):
        parent = world.spans[name].parent
        assert parent is not None
        assert parent.span_id == root_context.span_id


def test_the_answer_span_is_no_stage(world: World) -> None:
    with world.telemetry.activated(), span(Span.ANSWER_QUESTION) as root:
        pass
    assert root.seconds > 0
    assert not [key for key in world.samples() if key[0] == COUNT]


def test_attributes_keep_published_names_and_leave_none_out(world: World) -> None:
    with world.telemetry.activated(), stage(Stage.GENERATE, seed=None) as timer:
        timer.set("gen_ai.request.model", "m")
        timer.set("indices", [1, 2])
    assert world.spans["generate"].attributes == {
        "gen_ai.request.model": "m",
        "framegate.indices": (1, 2),
    }


def test_two_services_in_one_process_do_not_mix(make_world: Callable[[], World]) -> None:
    first, second = make_world(), make_world()
    with first.telemetry.activated(), stage(Stage.DECODE):
        pass
    assert first.sample(COUNT, stage="decode", outcome="ok") == 1
    assert second.sample(COUNT, stage="decode", outcome="ok") is None
    assert not second.spans


def test_a_trace_id_is_usable_also_without_telemetry() -> None:
    with stage(Stage.DECODE) as timer:
        ids = {current_trace_id() for _ in range(3)}
    assert timer.seconds > 0
    assert len(ids) == 3
    assert all(len(found) == 32 and int(found, 16) > 0 for found in ids)
    assert inject_context() == {}


@pytest.mark.anyio
async def test_the_trace_goes_along_into_threads(world: World) -> None:
    with ThreadPoolExecutor(1) as pool, world.telemetry.activated(), span(Span.ANSWER_QUESTION):
        here = current_trace_id()
        assert await asyncio.to_thread(current_trace_id) == here
        assert await run_in_thread(pool, current_trace_id) == here
        assert await run_in_thread(None, current_trace_id) == here
        assert pool.submit(carrying_context(current_trace_id)).result() == here
        assert pool.submit(current_trace_id).result() != here


@pytest.mark.anyio
async def test_a_stage_in_a_thread_is_recorded_where_its_caller_records(world: World) -> None:
    def select(budget: int, *, fail: bool) -> int:
        with stage(Stage.SELECT_FRAMES, budget=budget):
            return budget

    with ThreadPoolExecutor(1) as pool, world.telemetry.activated(), span(Span.ANSWER_QUESTION):
        assert await run_in_thread(pool, select, 4, fail=False) == 4
    parent = world.spans["select_frames"].parent
    assert parent is not None
    assert parent.span_id == getattr(world.spans["answer_question"].context, "span_id", None)


def test_one_carried_function_may_run_in_several_threads_at_once(world: World) -> None:
    barrier = threading.Barrier(2, timeout=10)

    def meet() -> str:
        barrier.wait()
        return current_trace_id()

    with ThreadPoolExecutor(2) as pool, world.telemetry.activated(), span(Span.ANSWER_QUESTION):
        carried = carrying_context(meet)
        found = [future.result() for future in [pool.submit(carried), pool.submit(carried)]]
        assert found == [current_trace_id()] * 2


CHILD = """
import json, logging, sys
from observability.logs import configure_logging, log_event
from observability.names import Event, Stage
from observability.stages import current_trace_id, extracted_context, inject_context, stage
configure_logging("info")
with extracted_context(json.loads(sys.argv[1])):
    with stage(Stage.DECODE):
        log_event(logging.getLogger("child"), Event.PROCESS_STARTED)
        print(json.dumps([current_trace_id(), inject_context()]))
"""


def test_the_trace_goes_along_into_a_process(world: World) -> None:
    with world.telemetry.activated(), stage(Stage.DECODE):
        here, carrier = current_trace_id(), inject_context()
        done = subprocess.run(
            [sys.executable, "-c", CHILD, json.dumps(carrier)],
            capture_output=True,
            check=True,
            cwd=ROOT,
            text=True,
            timeout=60,
        )
    there, onward = json.loads(done.stdout)
    assert there == here
    assert onward["traceparent"].split("-")[1] == here
    assert json.loads(done.stderr)["trace_id"] == here


@pytest.mark.parametrize("carrier", [{}, {"traceparent": "nonsense"}, {"traceparent": "00-0-0-0"}])
def test_a_carrier_without_a_trace_changes_nothing(world: World, carrier: dict[str, str]) -> None:
    with world.telemetry.activated(), span(Span.ANSWER_QUESTION):
        here = current_trace_id()
        with extracted_context(carrier):
            assert current_trace_id() == here


def test_a_callers_trace_is_continued_and_left_again(world: World) -> None:
    caller = {"traceparent": f"00-{'a1' * 16}-{'b2' * 8}-01"}
    with world.telemetry.activated(), extracted_context(caller), span(Span.ANSWER_QUESTION):
        assert current_trace_id() == "a1" * 16
    assert current_trace_id() != "a1" * 16
    assert getattr(world.spans["answer_question"].parent, "is_remote", False) is True


@pytest.mark.anyio
async def test_a_stream_closed_from_another_task_ends_its_stage_quietly(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def tokens() -> AsyncGenerator[str, None]:
        with world.telemetry.activated(), stage(Stage.GENERATE):
            yield "one"
            yield "two"

    stream = tokens()
    assert await anext(stream) == "one"

    async def leave() -> None:
        await stream.aclose()

    with caplog.at_level(logging.DEBUG):
        await asyncio.create_task(leave())
    assert not caplog.records
    assert world.sample(COUNT, stage="generate", outcome=Outcome.CANCELLED) == 1
