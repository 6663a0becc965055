from __future__ import annotations

import re
from itertools import pairwise

from observability.metric import Kind
from observability.names import ALL_METRICS, Stage

MAX_SERIES = 2000
"""OpenTelemetry folds the rest of a metric into `otel.metric.overflow`."""


def test_metric_names_are_unique_dotted_and_ours() -> None:
    all_names = [metric.name for metric in ALL_METRICS]
    assert len(set(all_names)) == len(all_names)
    assert all(re.fullmatch(r"framegate(\.[a-z_]+)+", name) for name in all_names)


def test_a_histogram_has_buckets_and_nothing_else_has() -> None:
    for metric in ALL_METRICS:
        assert bool(metric.buckets) is (metric.kind is Kind.HISTOGRAM)
        assert all(low < high for low, high in pairwise(metric.buckets))


def test_labels_are_closed_sets_and_name_no_user_and_no_video() -> None:
    for metric in ALL_METRICS:
        num_series = 1
        for label in metric.labels:
            assert label.name not in {"user", "user_id", "video", "video_id", "tenant"}
            assert label.values
            num_series *= len(label.values)
        assert num_series < MAX_SERIES / 10


def test_stages_are_named_like_their_functions() -> None:
    assert [str(stage) for stage in Stage] == [
        "intake",
        "decode",
        "index",
        "select_frames",
        "encode",
        "reduce",
        "generate",
    ]
