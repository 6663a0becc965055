"""observability/metric.py: names in /metrics."""

from __future__ import annotations

import pytest

from observability.metric import Kind, Metric


@pytest.mark.parametrize(
    ("metric", "exported"),
    [
        (Metric("a.videos", Kind.COUNTER, "{video}", ""), "a_videos_total"),
        (Metric("a.device_seconds", Kind.COUNTER, "s", ""), "a_device_seconds_total"),
        (Metric("a.duration", Kind.HISTOGRAM, "s", ""), "a_duration_seconds"),
        (Metric("a.uploads", Kind.COUNTER, "By", ""), "a_uploads_bytes_total"),
        (Metric("a.switch.on", Kind.GAUGE, "1", ""), "a_switch_on"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_the_unit_is_told_once_and_counters_end_in_total(metric: Metric, exported: str) -> None:
    assert metric.prometheus_name == exported
