"""Where finished comparisons go: JSON lines, telemetry; the ledger's sink is the gateway's."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from threading import Lock
from typing import Protocol

from observability.logs import log_event
from observability.metrics import Metrics
from observability.names import Event
from observability.shadow_names import ShadowOutcome, ShadowSide
from shadow.records import ComparisonRecord, SideRecord

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Gets one record at a time, never on the event loop."""

    def put(self, record: ComparisonRecord) -> None:
        """Take the record. May block briefly; what it raises is logged and costs this record."""
        ...

    def close(self) -> None:
        """No record comes after this."""
        ...


class FanOut:
    """A sink of sinks: one that fails takes no record from the others."""

    def __init__(
        self, sinks: tuple[Sink, ...], on_failure: Callable[[str, Exception], None]
    ) -> None:
        self._sinks = sinks
        self._on_failure = on_failure
        self._lock = Lock()

    def put(self, record: ComparisonRecord) -> None:
        with self._lock:
            for sink in self._sinks:
                try:
                    sink.put(record)
                except Exception as exc:  # noqa: BLE001 - a sink may be foreign code
                    self._on_failure(f"{type(sink).__name__} refused a comparison", exc)

    def close(self) -> None:
        with self._lock:
            for sink in self._sinks:
                sink.close()


class JsonLinesSink:
    """One JSON object a line, in a file and one older file: never more than twice `max_bytes`.

    Without the texts of question and answers: whoever deletes a user or a video finds those in the
    ledger alone.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def put(self, record: ComparisonRecord) -> None:
        """Raises OSError."""
        line = json.dumps(without_texts(record), separators=(",", ":")).encode() + b"\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        size = self._size()
        if size and size + len(line) > self._max_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
        # One write of a whole line: a reader, or a second writer, never sees half of it.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Nothing is kept open."""

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


class TelemetrySink:
    """The shadow's metrics and the log event `shadow.compared` (OTLP, where that is configured)."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def put(self, record: ComparisonRecord) -> None:
        self._count(record)
        self._measure_side(record.control, ShadowSide.CONTROL)
        self._measure_side(record.shadow, ShadowSide.SHADOW)
        if logger.isEnabledFor(logging.INFO):
            members = _members(record)
            log_event(logger, Event.SHADOW_COMPARED, level=logging.INFO, exc_info=None, **members)

    def close(self) -> None:
        """Nothing is kept open."""

    def _count(self, record: ComparisonRecord) -> None:
        shadow_id, kind = record.shadow.sampler_id, str(record.kind)
        self._metrics.shadow_compared(shadow_id, kind, outcome_of(record))
        if record.shadow.failure_kind is not None:
            self._metrics.shadow_failed(shadow_id, record.shadow.failure_kind)
        if record.overlap_within is not None and record.temporal_distance_s is not None:
            self._metrics.shadow_differed(
                shadow_id,
                kind,
                overlap=record.overlap_within,
                distance_s=record.temporal_distance_s,
            )
        if record.answers_agree is not None:
            self._metrics.shadow_answers_agree(shadow_id, kind, record.answers_agree)

    def _measure_side(self, side: SideRecord, name: ShadowSide) -> None:
        if side.failure_kind is None:
            self._metrics.shadow_selected(side.sampler_id, name, side.latency_s)
        self._metrics.shadow_asked_model(
            side.sampler_id, name, calls=side.model_calls, tokens=side.model_tokens
        )
        if side.relevance is not None:
            self._metrics.shadow_relevance_is(side.sampler_id, name, side.relevance)


def outcome_of(record: ComparisonRecord) -> ShadowOutcome:
    """A failure of the shadow outweighs one of the control."""
    if record.shadow.failure_kind is not None:
        return ShadowOutcome.SHADOW_FAILED
    if record.control.failure_kind is not None:
        return ShadowOutcome.CONTROL_FAILED
    return ShadowOutcome.COMPARED


def without_texts(record: ComparisonRecord) -> dict[str, object]:
    """Every field but the texts that people wrote or read."""
    members = _fields(record)
    del members["question"]
    return members | dict(_sides(record))


def _sides(record: ComparisonRecord) -> list[tuple[str, dict[str, object]]]:
    sides = [("control", _fields(record.control)), ("shadow", _fields(record.shadow))]
    for _, side in sides:
        del side["answer"]
    return sides


def _members(record: ComparisonRecord) -> dict[str, object]:
    """Flat, as attributes of a log record are; bounded, so without the frames."""
    members = without_texts(record)
    for name, side in _sides(record):
        del members[name], side["indices"], side["seconds"], side["sampler_options"]
        members |= {f"{name}_{field}": value for field, value in side.items()}
    return {name: value for name, value in members.items() if value is not None}


def _fields(record: ComparisonRecord | SideRecord) -> dict[str, object]:
    """Not `asdict`, which copies every frame."""
    return {field.name: getattr(record, field.name) for field in fields(record)}
