"""Spans and stage times, and the trace context's way through threads and processes.

`stage` finds its tracer and histogram in the current context (`StageRecorder.activated`), else in
OpenTelemetry's process-wide providers (`Telemetry.install`), which do nothing until they are set.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from observability.names import (
    ATTRIBUTE_PREFIX,
    SCOPE,
    STAGE_DURATION,
    Outcome,
    Span,
    Stage,
)

P = ParamSpec("P")
R = TypeVar("R")
AttributeValue = str | bool | int | float | Sequence[str] | Sequence[int] | Sequence[float] | None

_RECORDER_KEY = otel_context.create_key("framegate-stage-recorder")
_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class StageRecorder:
    """Where stages are recorded: a tracer for their spans and the histogram of their seconds."""

    tracer: Tracer
    duration: Histogram

    @classmethod
    def of(cls, tracer_provider: TracerProvider, meter_provider: MeterProvider) -> StageRecorder:
        meter = meter_provider.get_meter(SCOPE)
        duration = meter.create_histogram(
            STAGE_DURATION.name, unit=STAGE_DURATION.unit, description=STAGE_DURATION.meaning
        )
        return cls(tracer_provider.get_tracer(SCOPE), duration)

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Record the stages of this context, and of tasks and threads that inherit it, here."""
        before = otel_context.get_current()
        otel_context.attach(otel_context.set_value(_RECORDER_KEY, self))
        try:
            yield
        finally:
            otel_context.attach(before)


_PROCESS_WIDE = StageRecorder.of(trace.get_tracer_provider(), metrics.get_meter_provider())


def _current_recorder() -> StageRecorder:
    recorder = otel_context.get_value(_RECORDER_KEY)
    return recorder if isinstance(recorder, StageRecorder) else _PROCESS_WIDE


def _attribute_name(key: str) -> str:
    """Names of published conventions carry dots and stay; ours get the prefix."""
    return key if "." in key else ATTRIBUTE_PREFIX + key


class SpanTimer:
    """A running span and its clock; a context manager, entered once."""

    def __init__(self, name: Stage | Span, attributes: Mapping[str, AttributeValue]) -> None:
        self._name = name
        self._recorder = _current_recorder()
        self._attributes = attributes
        self._seconds: float | None = None
        self.outcome = Outcome.OK

    def __enter__(self) -> Self:
        self._before = otel_context.get_current()
        self._span = self._recorder.tracer.start_span(str(self._name), self._before)
        self._inside = trace.set_span_in_context(self._span, self._before)
        for key, value in self._attributes.items():
            self.set(key, value)
        otel_context.attach(self._inside)
        self._start = perf_counter()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._seconds = perf_counter() - self._start
        self._note_exception(exc)
        if isinstance(self._name, Stage):
            labels = {"stage": str(self._name), "outcome": str(self.outcome)}
            self._recorder.duration.record(self._seconds, labels)
        self._span.end()
        # Not `detach`: a stage inside an async generator may be closed from another task, where
        # the token is foreign and detaching logs a traceback. Putting the old value back works.
        if otel_context.get_current() is self._inside:
            otel_context.attach(self._before)

    def _note_exception(self, exc: BaseException | None) -> None:
        if exc is None:
            return
        if isinstance(exc, asyncio.CancelledError | GeneratorExit):
            self.outcome = Outcome.CANCELLED
            self.set("outcome", str(self.outcome))
            return
        self.outcome = Outcome.ERROR
        self._span.record_exception(exc)
        self._span.set_status(Status(StatusCode.ERROR, type(exc).__name__))

    @property
    def seconds(self) -> float:
        """Seconds from entry to exit; inside the block, seconds so far."""
        return perf_counter() - self._start if self._seconds is None else self._seconds

    def set(self, key: str, value: AttributeValue) -> None:
        """Add an attribute to the span (not to the histogram). `None` is left out."""
        if value is not None:
            self._span.set_attribute(_attribute_name(key), value)


def stage(name: Stage, **attributes: AttributeValue) -> SpanTimer:
    """One span and one observation of `framegate.stage.duration` around a block.

    Attributes go on the span alone, prefixed with `framegate.`; the histogram gets stage and
    outcome. An exception makes the outcome `error`, or `cancelled` when a task or an async
    generator is closed.
    """
    return SpanTimer(name, attributes)


def span(name: Span, **attributes: AttributeValue) -> SpanTimer:
    """A span that is no stage: the root of an answer. Its seconds are in `timer.seconds`."""
    return SpanTimer(name, attributes)


def current_trace_id() -> str:
    """32 hex digits: the current trace, or a fresh random one when there is none."""
    current = trace.get_current_span().get_span_context()
    if current.is_valid:
        return trace.format_trace_id(current.trace_id)
    return trace.format_trace_id(RandomIdGenerator().generate_trace_id())


def inject_context() -> dict[str, str]:
    """W3C `traceparent` (and `tracestate`) of the current span; empty when there is no trace.

    For the headers of an HTTP call, or an argument of a process.
    """
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier


@contextmanager
def extracted_context(carrier: Mapping[str, str]) -> Iterator[None]:
    """Continue the trace that `inject_context` wrote; without a valid one, change nothing."""
    before = otel_context.get_current()
    otel_context.attach(_PROPAGATOR.extract(carrier, before))
    try:
        yield
    finally:
        otel_context.attach(before)


def carrying_context(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, run in a copy of the context of this moment: for `executor.submit` and threads.

    Executors start their work in an empty context and so lose the trace.
    """
    captured = contextvars.copy_context()

    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        return captured.copy().run(function, *args, **kwargs)

    return carried


async def run_in_thread(
    executor: Executor | None, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """`loop.run_in_executor` that keeps the trace; `None` is the loop's own pool."""
    carried = carrying_context(function)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, lambda: carried(*args, **kwargs))
