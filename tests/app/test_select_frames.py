"""A failing sampler never fails an answer: every way to fail, in real threads and processes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import psutil
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from app.sampler_breaker import BreakerRule, SamplerBreaker
from app.sampler_pools import PoolSizes, SamplerPools
from app.sampler_table import SamplerTable
from app.select_frames import (
    MAX_TRACEBACK_CHARS,
    FrameSelector,
    SelectionDeadlines,
    SelectionFailedError,
    SelectionRequest,
)
from observability.logs import JsonFormatter
from observability.metrics import Metrics
from observability.names import SAMPLER_FAILURES, Event, SamplerFailure
from samplers.contract import check_selection
from samplers.registry import load_registry
from tests.app.rogue_samplers import TARGETS
from tests.app.stored_video import ENCODER_ID, VIDEO_ID, store_video

QUERY = "a red car"
BUDGET = 6
DEADLINE_S = 1.0


@pytest.fixture(scope="module")
def table() -> SamplerTable:
    return SamplerTable(load_registry(TARGETS), {}, encoder="default")


@pytest.fixture(scope="module")
def pools(table: SamplerTable) -> Iterator[SamplerPools]:
    made = SamplerPools(table, PoolSizes(threads=2, processes=1))
    yield made
    made.close()


class World:
    """A selector over one stored video, and the failures it counted."""

    def __init__(self, data_dir: Path, table: SamplerTable, pools: SamplerPools) -> None:
        library = store_video(data_dir)
        self.video = library.open(VIDEO_ID)
        vector = np.full(16, 0.25, dtype=np.float32)
        self.handle = library.handle(
            self.video, {"default": ENCODER_ID}, {(ENCODER_ID, QUERY): vector}
        )
        self._reader = InMemoryMetricReader()
        metrics = Metrics(MeterProvider([self._reader]), sampler_ids=table.ids)
        breaker = SamplerBreaker(BreakerRule(), monotonic)
        self.selector = FrameSelector(
            table, pools.run_sampler, breaker, metrics, SelectionDeadlines(DEADLINE_S, DEADLINE_S)
        )

    @property
    def request(self) -> SelectionRequest:
        return SelectionRequest(self.handle, QUERY, BUDGET, self.video.scenes)

    def failures(self) -> dict[tuple[str, str], float]:
        """(sampler, kind) -> count, of those that were counted."""
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            (str(point.attributes["sampler"]), str(point.attributes["kind"])): point.value
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == SAMPLER_FAILURES.name
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint) and point.attributes and point.value
        }


@pytest.fixture
async def world(tmp_path: Path, table: SamplerTable, pools: SamplerPools) -> World:
    return World(tmp_path, table, pools)


def selection_processes() -> set[int]:
    """Pids of the live processes that run outside samplers."""
    return {
        child.pid
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(child.cmdline())
    }


@pytest.mark.anyio
@pytest.mark.parametrize("sampler_id", ["uniform", "shot", "aks", "bolt", "first-frames"])
async def test_a_sound_sampler_chooses_the_frames(world: World, sampler_id: str) -> None:
    selection = await world.selector.select_frames(sampler_id, world.request)
    assert selection.fallback is None
    assert selection.sampler_id == sampler_id
    check_selection(selection.indices, world.handle, BUDGET, fills_budget=True)
    assert world.failures() == {}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("sampler_id", "kind"),
    [
        ("raising", SamplerFailure.RAISED),
        ("exiting", SamplerFailure.RAISED),
        ("dying", SamplerFailure.RAISED),
        ("odd-error", SamplerFailure.RAISED),
        ("unbuildable", SamplerFailure.RAISED),
        ("unsorted", SamplerFailure.CONTRACT),
        ("floats", SamplerFailure.CONTRACT),
        ("featureless", SamplerFailure.DEPENDENCY),
        ("sleeping", SamplerFailure.DEADLINE),
    ],
)
async def test_a_failing_sampler_is_replaced_by_uniform_and_counted_by_kind(
    world: World, sampler_id: str, kind: SamplerFailure
) -> None:
    selection = await world.selector.select_frames(sampler_id, world.request)
    expected = await world.selector.select_frames("uniform", world.request)
    assert selection.sampler_id == "uniform"
    assert selection.indices == expected.indices
    assert selection.fallback is not None
    assert (selection.fallback.sampler_id, selection.fallback.kind) == (sampler_id, kind)
    assert world.failures() == {(sampler_id, str(kind)): 1}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("sampler_id", "raised"),
    [
        ("raising", "RuntimeError: the model is out of memory"),
        ("odd-error", "tests.app.rogue_samplers.OddError: a"),
        ("unbuildable", "LookupError: no weights"),
    ],
)
async def test_the_log_line_says_where_a_sampler_raised(
    world: World, caplog: pytest.LogCaptureFixture, sampler_id: str, raised: str
) -> None:
    await world.selector.select_frames(sampler_id, world.request)
    [record] = [one for one in caplog.records if one.getMessage() == Event.SAMPLER_FAILED]
    line = json.loads(JsonFormatter().format(record))
    assert line["sampler"] == sampler_id
    assert line["exception"].startswith("Traceback")
    assert "rogue_samplers.py" in line["exception"]
    assert line["exception"].strip().endswith(raised)


@pytest.mark.anyio
async def test_what_broke_no_rule_by_raising_has_no_traceback(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.selector.select_frames("unsorted", world.request)
    [record] = [one for one in caplog.records if one.getMessage() == Event.SAMPLER_FAILED]
    assert "exception" not in json.loads(JsonFormatter().format(record))


def test_a_traceback_that_crosses_processes_is_bounded_at_its_beginning() -> None:
    failure = SelectionFailedError(SamplerFailure.RAISED, "x", trace="a" * 10_000 + "the end")
    crossed = pickle.loads(pickle.dumps(failure))
    assert len(crossed.trace) == MAX_TRACEBACK_CHARS
    assert crossed.trace.endswith("the end")


@pytest.mark.anyio
async def test_the_time_of_a_selection_leaves_the_start_of_its_process_out(world: World) -> None:
    await world.selector.select_frames("sleeping", world.request)
    started = monotonic()
    chosen = await world.selector.select_or_raise("first-frames", world.request)
    with_start_s = monotonic() - started
    assert 0 < chosen.select_s < with_start_s / 2


@pytest.mark.anyio
async def test_an_overrun_took_its_deadline(world: World) -> None:
    with pytest.raises(SelectionFailedError) as failed:
        await world.selector.select_or_raise("sleeping", world.request)
    assert failed.value.select_s == DEADLINE_S


@pytest.mark.anyio
async def test_an_unknown_sampler_is_counted_under_one_label(world: World) -> None:
    selection = await world.selector.select_frames("no-such-thing", world.request)
    assert selection.fallback is not None
    assert selection.fallback.kind is SamplerFailure.UNKNOWN
    assert world.failures() == {("unknown", "unknown"): 1}


@pytest.mark.anyio
async def test_an_overrun_kills_the_process_and_the_next_selection_works(world: World) -> None:
    await world.selector.select_frames("first-frames", world.request)
    before = selection_processes()
    overrun = await world.selector.select_frames("sleeping", world.request)
    assert overrun.fallback is not None
    after = await world.selector.select_frames("first-frames", world.request)
    assert after.fallback is None
    assert len(before) == len(selection_processes()) == 1
    assert before != selection_processes()


@pytest.mark.anyio
async def test_after_three_overruns_the_sampler_is_not_called_any_more(world: World) -> None:
    for _ in range(3):
        await world.selector.select_frames("sleeping", world.request)
    started = monotonic()
    selection = await world.selector.select_frames("sleeping", world.request)
    assert monotonic() - started < DEADLINE_S
    assert selection.fallback is not None
    assert selection.fallback.kind is SamplerFailure.BREAKER_OPEN


@pytest.mark.anyio
async def test_a_missing_query_vector_is_a_dependency_failure(
    world: World,
) -> None:
    request = SelectionRequest(world.handle, "another question", BUDGET, world.video.scenes)
    selection = await world.selector.select_frames("aks", request)
    assert selection.fallback is not None
    assert selection.fallback.kind is SamplerFailure.DEPENDENCY
