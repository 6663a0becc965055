"""Runs comparisons in the shadow's process, one after the other, behind a bounded queue.

`offer` returns at once and never raises; everything else happens in a thread of the runner's own,
which waits most of the time. What goes wrong in here costs a comparison, never an answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Protocol, TypeAlias

from observability.names import SamplerFailure
from observability.shadow_names import ShadowShed, ShadowSide
from shadow.order import Greeting, SideResult, WorkOrder, WorkResult
from shadow.process import OverrunError, ProcessEndedError, ShadowProcess, StarvedError

START_DEADLINE_S = 20.0
START_AGAIN_S = 5.0
"""After a start that failed, so long nothing is started."""
PATIENCE = 10.0
"""A process that is kept from running gets so many times its deadline."""

Done: TypeAlias = Callable[[WorkResult | ShadowShed], None]
"""Called in the runner's thread with a finished result, or why there is none."""


class Resting(Protocol):
    """Which samplers are not called for a while. Used from the runner's thread only."""

    def is_open(self, sampler_id: str) -> bool: ...
    def record_overrun(self, sampler_id: str) -> None: ...
    def record_success(self, sampler_id: str) -> None: ...


class Reports(Protocol):
    """Where the runner tells what happens to it; `observability` has the counters."""

    def queue_is(self, num_waiting: int) -> None: ...
    def restarted(self) -> None: ...
    def failed(self, what: str, error: Exception) -> None:
        """Something that costs comparisons and that an operator should know of."""
        ...


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    queue_size: int
    deadline_s: float
    """Of each of the two selections, and of opening the video."""
    model_deadline_s: float
    """Of a selection by a sampler that asks a model."""


@dataclass(frozen=True, slots=True)
class RunnerParts:
    limits: RunnerLimits
    greeting: Greeting
    resting: Resting
    reports: Reports
    is_loaded: Callable[[], bool]
    """The gateway has better things to do; asked in the runner's thread."""


class ShadowRunner:
    """Nothing runs before the first offer. `close` leaves no process and no thread behind."""

    def __init__(self, parts: RunnerParts) -> None:
        self._parts = parts
        self._queue: queue.Queue[tuple[WorkOrder, Done] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._serve, name="shadow", daemon=True)
        self._process: ShadowProcess | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._retry_at_s = float("-inf")

    def offer(self, order: WorkOrder, done: Done) -> ShadowShed | None:
        """Queue the order, or say why not. Returns at once, from any thread."""
        if self._closing.is_set():
            return ShadowShed.CLOSING
        if self._queue.qsize() >= self._parts.limits.queue_size:
            return ShadowShed.QUEUE_FULL
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()
        self._queue.put_nowait((order, done))
        self._parts.reports.queue_is(self._queue.qsize())
        return None

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        process = self._process
        return None if process is None else process.pid

    def close(self) -> None:
        """Kill the process, whatever it does, and end the thread. What waits is shed. Blocks."""
        with self._lock:
            self._closing.set()
            if self._process is not None:
                self._process.kill()
        self._queue.put_nowait(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _serve(self) -> None:
        while (waiting := self._queue.get()) is not None:
            order, done = waiting
            self._parts.reports.queue_is(self._queue.qsize())
            outcome = self._safe_outcome(order)
            try:
                done(outcome)
            except Exception as exc:  # noqa: BLE001 - nothing stands above this thread to catch it
                self._parts.reports.failed("a comparison could not be recorded", exc)
        self._end_process()

    def _safe_outcome(self, order: WorkOrder) -> WorkResult | ShadowShed:
        try:
            return self._outcome(order)
        except Exception as exc:  # noqa: BLE001 - nothing stands above this thread to catch it
            self._end_process()
            self._parts.reports.failed("a comparison could not be carried out", exc)
            return ShadowShed.NO_PROCESS

    def _outcome(self, order: WorkOrder) -> WorkResult | ShadowShed:
        if self._closing.is_set():
            return ShadowShed.CLOSING
        if self._parts.is_loaded():
            return ShadowShed.LOAD
        resting = self._parts.resting
        if any(resting.is_open(spec.sampler_id) for spec in (order.control, order.shadow)):
            return ShadowShed.RESTING
        process = self._running_process()
        if process is None:
            return ShadowShed.CLOSING if self._closing.is_set() else ShadowShed.NO_PROCESS
        try:
            return self._judged(self._carried_out(process, order), order)
        except StarvedError:
            self._end_process()
            self._parts.reports.restarted()
            return ShadowShed.LOAD

    def _carried_out(self, process: ShadowProcess, order: WorkOrder) -> WorkResult:
        """The result; where the process had to be ended, as far as it got, with who is to blame.

        Raises `StarvedError`: nobody is to blame.
        """
        limits = self._parts.limits
        deadline_s, result = limits.deadline_s, WorkResult()
        try:
            process.send(order)
            while True:
                result = process.receive(deadline_s, PATIENCE * deadline_s)
                if result.running is None:
                    return result
                asks_model = order.sampler(result.running).uses_scorer
                deadline_s = limits.model_deadline_s if asks_model else limits.deadline_s
        except OverrunError:
            message = f"no selection within {deadline_s:g} s"
            failure = SideResult(
                latency_s=deadline_s,
                failure_kind=SamplerFailure.DEADLINE,
                failure_message=message,
            )
        except ProcessEndedError as exc:
            failure = SideResult(failure_kind=SamplerFailure.RAISED, failure_message=str(exc))
        self._end_process()
        self._parts.reports.restarted()
        return _blamed(result, failure)

    def _judged(self, result: WorkResult, order: WorkOrder) -> WorkResult | ShadowShed:
        if self._closing.is_set():
            return ShadowShed.CLOSING
        if result.is_video_gone:
            return ShadowShed.VIDEO_GONE
        self._note_conduct(result, order)
        control, shadow = result.control, result.shadow
        if control is not None and control.failure_kind is not None and control.indices:
            return ShadowShed.CONTROL_FAILED
        return ShadowShed.NO_PROCESS if control is None or shadow is None else result

    def _note_conduct(self, result: WorkResult, order: WorkOrder) -> None:
        """Who took the process down too often rests: starting it again costs half a second."""
        if result.running is None:
            self._parts.resting.record_success(order.shadow.sampler_id)
            return
        blamed = order.control if result.running is ShadowSide.CONTROL else order.shadow
        self._parts.resting.record_overrun(blamed.sampler_id)

    def _running_process(self) -> ShadowProcess | None:
        """The process, started where there is none; None where that fails, and for a while then."""
        if self._process is not None:
            return self._process
        process = self._started() if monotonic() >= self._retry_at_s else None
        if process is None:
            return None
        try:
            process.receive(START_DEADLINE_S, PATIENCE * START_DEADLINE_S)
        except (OverrunError, ProcessEndedError, StarvedError) as exc:
            self._end_process()
            if not self._closing.is_set():
                self._retry_at_s = monotonic() + START_AGAIN_S
                self._parts.reports.failed("the shadow's process did not start", exc)
            return None
        return process

    def _started(self) -> ShadowProcess | None:
        with self._lock:
            if self._closing.is_set():
                return None
            self._process = ShadowProcess(self._parts.greeting)
            return self._process

    def _end_process(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.close()


def _blamed(result: WorkResult, failure: SideResult) -> WorkResult:
    """The failure belongs to the side that was running."""
    if result.running is ShadowSide.SHADOW:
        return replace(result, shadow=failure)
    if result.running is ShadowSide.CONTROL and result.control is not None:
        return replace(
            result,
            control=replace(
                result.control,
                failure_kind=failure.failure_kind,
                failure_message=failure.failure_message,
            ),
        )
    return result
