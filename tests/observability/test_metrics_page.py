"""docs/metrics.md against observability/names.py."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from observability.metric import SAMPLER_LABEL, Kind, Label, Metric
from observability.metrics import Metrics
from observability.names import (
    ALL_METRICS,
    Event,
    FeatureFlagAttribute,
    GenAiAttribute,
    Span,
    Stage,
)
from tests.observability.conftest import World

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def _label(label: Label) -> str:
    values = "registered ids, unknown" if label is SAMPLER_LABEL else ", ".join(label.values)
    return f"`{label.name}`: {values}"


def page_row(metric: Metric) -> str:
    """The row of the page's table that this metric must have."""
    labels = "; ".join(map(_label, metric.labels)) or "–"
    exported = metric.prometheus_name
    columns = [f"`{metric.name}`", f"`{exported}`", metric.kind, metric.unit, labels]
    return f"| {' | '.join(columns)} | {metric.meaning} |"


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)
def test_the_page_has_a_true_row_for_every_metric(metric: Metric) -> None:
    assert page_row(metric) in PAGE.read_text().splitlines()


def test_the_page_has_no_metric_that_does_not_exist() -> None:
    named = set(re.findall(r"^\| `(framegate\.[a-z_.]+)` \|", PAGE.read_text(), re.MULTILINE))
    assert named == {metric.name for metric in ALL_METRICS}


def test_the_exported_names_of_the_page_are_those_of_the_exporter(world: World) -> None:
    metrics = Metrics(world.telemetry.meter_provider, sampler_ids=["uniform"])
    metrics.observe_process_restarts(dict)
    exported = {name for name, _ in world.samples()}
    always_there = [metric for metric in ALL_METRICS if metric.kind is not Kind.HISTOGRAM]
    assert {metric.prometheus_name for metric in always_there} <= exported


@pytest.mark.parametrize(
    "name", [*chain(Stage, Span, Event, FeatureFlagAttribute, GenAiAttribute)], ids=str
)
def test_the_page_names_every_span_log_event_and_attribute(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text()
