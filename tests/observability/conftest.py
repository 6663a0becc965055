"""A small world of telemetry: built in the test, read back through its public ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from observability.setup import Telemetry, TelemetryConfig, configure_telemetry


@dataclass
class World:
    """One telemetry and what it recorded."""

    telemetry: Telemetry
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def __post_init__(self) -> None:
        self.telemetry.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Every sample of /metrics by name and labels, as Prometheus' own parser reads it."""
        text = self.telemetry.metrics_text().decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def sample(self, name: str, **labels: str) -> float | None:
        return self.samples().get((name, frozenset(labels.items())))


@pytest.fixture
def make_world() -> Iterator[Callable[[], World]]:
    built: list[World] = []

    def make() -> World:
        built.append(World(configure_telemetry(TelemetryConfig(service_version="9.9"))))
        return built[-1]

    yield make
    for world in built:
        world.telemetry.shutdown()


@pytest.fixture
def world(make_world: Callable[[], World]) -> World:
    return make_world()
