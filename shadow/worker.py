"""The work of the shadow's process: selects by both samplers and measures what they chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

import numpy as np
from pydantic import TypeAdapter

from observability.names import SamplerFailure
from observability.shadow_names import ShadowSide
from samplers.contract import (
    ContractViolationError,
    FeaturesMissingError,
    FrameScorer,
    Sampler,
    VideoHandle,
    check_selection,
)
from samplers.registry import Registry, load_registry
from shadow import compare
from shadow.order import (
    Differences,
    Greeting,
    OpenedVideo,
    SamplerSpec,
    SideResult,
    WorkOrder,
    WorkResult,
)

MAX_MESSAGE_CHARS = 300
RUN_QUEUE = Path("/proc/thread-self/schedstat")
"""Second number: nanoseconds that this thread was ready to run and did not."""

RESULT = TypeAdapter(WorkResult)
"""Results cross as JSON: what comes from a process that runs foreign code is only data."""


def serve(connection: Connection) -> None:
    """Say that everything is imported, then carry out orders until the gateway hangs up."""
    try:
        greeting: Greeting = connection.recv()
        worker = Worker(load_registry(greeting.outside_targets))
        connection.send_bytes(RESULT.dump_json(WorkResult()))
        while True:
            for result in worker.carry_out(connection.recv()):
                connection.send_bytes(RESULT.dump_json(result))
    except (EOFError, ConnectionError):
        return


class Worker:
    """Builds each sampler once, those that ask a model for every selection."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._samplers: dict[SamplerSpec, Sampler] = {}

    def carry_out(self, order: WorkOrder) -> Iterator[WorkResult]:
        """The result after each step; the last one is finished.

        The control's frames are those of the answer. It is called again all the same: its latency
        is taken here, beside the shadow's, because the gateway's holds queueing and was taken at
        another priority. Which of the two goes first is drawn.
        """
        try:
            video = order.open_video()
        except FileNotFoundError:
            yield WorkResult(is_video_gone=True)
            return
        so_far = WorkResult(control=_served(order, video))
        for side in _sides(order):
            yield replace(so_far, running=side)
            so_far = self._with_side(so_far, side, order, video)
        yield replace(so_far, differences=_differences(order, so_far))

    def _with_side(
        self, so_far: WorkResult, side: ShadowSide, order: WorkOrder, video: OpenedVideo
    ) -> WorkResult:
        made = self._billed(side, order, video)
        if side is ShadowSide.SHADOW:
            return replace(so_far, shadow=_measured(made, order, video))
        return replace(so_far, control=so_far.control and _timed(so_far.control, made))

    def _billed(self, side: ShadowSide, order: WorkOrder, video: OpenedVideo) -> SideResult:
        """The selection, or how it failed, and what it asked of the scoring model. Never raises."""
        spec, scorer = order.sampler(side), None
        if spec.uses_scorer and video.scorer is not None:
            try:
                scorer = video.scorer(side)
            except FeaturesMissingError as exc:
                return _failed(SamplerFailure.DEPENDENCY, str(exc))
        made = self._select(spec, scorer, order, video)
        if scorer is None:
            return made
        return replace(made, model_calls=scorer.num_calls, model_tokens=scorer.num_tokens)

    def _select(
        self, spec: SamplerSpec, scorer: FrameScorer | None, order: WorkOrder, video: OpenedVideo
    ) -> SideResult:
        """The checked selection, or how it failed. Never raises."""
        try:
            sampler = self._sampler(spec, scorer)
            handle = video.fresh_handle() if sampler.uses_query else video.handle_without_query()
            started_s = _running_s()
            selected = sampler.select(handle, order.query, order.budget, list(video.scenes))
            took_s = _running_s() - started_s
            fills_budget = sampler.fills_budget
            indices = check_selection(selected, handle, order.budget, fills_budget=fills_budget)
        except FeaturesMissingError as exc:
            return _failed(SamplerFailure.DEPENDENCY, str(exc))
        except ContractViolationError as exc:
            return _failed(SamplerFailure.CONTRACT, str(exc))
        except BaseException as exc:  # noqa: BLE001 - a sampler is foreign code and may raise anything
            return _failed(SamplerFailure.RAISED, f"{type(exc).__name__}: {exc}")
        return SideResult(
            indices=tuple(indices), seconds=_seconds(handle, indices), latency_s=max(0.0, took_s)
        )

    def _sampler(self, spec: SamplerSpec, scorer: FrameScorer | None) -> Sampler:
        sampler = self._samplers.get(spec)
        if sampler is None:
            entry = self._registry.get(spec.base_id)
            sampler = entry.build(dict(spec.options), encoder=spec.encoder, scorer=scorer)
            if scorer is None:
                self._samplers[spec] = sampler
        return sampler


def _running_s() -> float:
    """A clock that stands still while this thread waits for a processor: others go first here,
    and a sampler is not slower for it."""
    try:
        waited_ns = int(RUN_QUEUE.read_text().split()[1])
    except (OSError, IndexError):
        waited_ns = 0
    return perf_counter() - waited_ns / 1e9


def _sides(order: WorkOrder) -> Sequence[ShadowSide]:
    if order.selected.failure_kind is not None:
        return (ShadowSide.SHADOW,)
    sides = (ShadowSide.CONTROL, ShadowSide.SHADOW)
    return sides if order.is_control_first else sides[::-1]


def _failed(kind: str, message: str) -> SideResult:
    return SideResult(failure_kind=kind, failure_message=message[:MAX_MESSAGE_CHARS])


def _served(order: WorkOrder, video: OpenedVideo) -> SideResult:
    selected = order.selected
    if selected.failure_kind is not None:
        return _failed(selected.failure_kind, selected.failure_message or "")
    seconds = _seconds(video.fresh_handle(), selected.indices)
    return _measured(SideResult(indices=selected.indices, seconds=seconds), order, video)


def _timed(served: SideResult, again: SideResult) -> SideResult:
    """The served frames with latency and bill of the control's call in here, or its failure."""
    return replace(
        served,
        latency_s=again.latency_s,
        model_calls=again.model_calls,
        model_tokens=again.model_tokens,
        failure_kind=again.failure_kind,
        failure_message=again.failure_message,
    )


def _seconds(handle: VideoHandle, indices: Sequence[int]) -> tuple[float, ...]:
    return tuple(handle.timestamps_s[np.asarray(indices, dtype=np.int64)].tolist())


def _measured(side: SideResult, order: WorkOrder, video: OpenedVideo) -> SideResult:
    """With what its frames are worth; as far as there are features."""
    if not side.indices:
        return side
    candidates = video.fresh_handle().candidates
    coverage = compare.scene_coverage(side.indices, video.scenes, candidates, order.budget)
    side = replace(side, scene_coverage=coverage)
    try:
        rows = video.embeddings(side.indices)
    except FeaturesMissingError:
        return side
    vector = video.query_vector
    return replace(
        side,
        redundancy=compare.redundancy(rows),
        relevance=None if vector is None else compare.relevance(rows, vector),
    )


def _differences(order: WorkOrder, result: WorkResult) -> Differences | None:
    control, shadow = result.control, result.shadow
    if control is None or shadow is None or not control.indices or not shadow.indices:
        return None
    first_s = np.array(control.seconds, dtype=np.float64)
    second_s = np.array(shadow.seconds, dtype=np.float64)
    return Differences(
        overlap_exact=compare.overlap_exact(control.indices, shadow.indices),
        overlap_within=compare.overlap_within(first_s, second_s, order.tolerance_s),
        temporal_distance_s=compare.temporal_distance_s(first_s, second_s),
    )
