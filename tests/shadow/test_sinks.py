"""Where records go, and what they do not carry there."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from observability.metrics import Metrics
from observability.setup import TelemetryConfig, configure_telemetry
from observability.shadow_names import ShadowOutcome
from shadow.records import ComparisonKind, ComparisonRecord, SideRecord
from shadow.sinks import FanOut, JsonLinesSink, TelemetrySink, outcome_of, without_texts

SIDE = SideRecord(
    sampler_id="aks",
    sampler_version="1",
    sampler_options={"all_depth": 5},
    indices=(3, 7),
    seconds=(0.3, 0.7),
    latency_s=0.002,
    relevance=0.25,
    redundancy=0.5,
    scene_coverage=1.0,
    vision_tokens=8,
    answer="a secret answer",
)
RECORD = ComparisonRecord(
    comparison_id="c1",
    answer_id="a1",
    tenant="acme",
    video_id="v1",
    user_hash="ab12",
    created_s=1.0,
    kind=ComparisonKind.SAMPLER,
    question="a secret question",
    flag_version="12@9f3c01ab",
    encoder_id="fake@1",
    llm_id="llm",
    profile="demo",
    reducer_id="merge",
    budget=2,
    video_seconds=10.0,
    num_candidates=20,
    control=SIDE,
    shadow=replace(SIDE, sampler_id="bolt", latency_s=0.004, relevance=-0.1),
    overlap_exact=0.5,
    overlap_within=1.0,
    tolerance_s=1.0,
    temporal_distance_s=0.25,
    answers_agree=0.75,
    agreement_method="embedding",
)
FAILED = replace(
    RECORD,
    shadow=replace(SIDE, sampler_id="bolt", failure_kind="deadline", relevance=None),
    overlap_within=None,
    temporal_distance_s=None,
    answers_agree=None,
)


class Remembering:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.records: list[ComparisonRecord] = []
        self.is_closed = False

    def put(self, record: ComparisonRecord) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.is_closed = True


class Refusing(Remembering):
    def put(self, record: ComparisonRecord) -> None:
        raise OSError("no space left")


def test_a_sink_that_fails_takes_no_record_from_the_others() -> None:
    failures: list[str] = []
    kept, refusing = Remembering(), Refusing()
    fan_out = FanOut((refusing, kept), lambda what, exc: failures.append(f"{what}: {exc}"))
    fan_out.put(RECORD)
    fan_out.close()
    assert kept.records == [RECORD]
    assert kept.is_closed
    assert refusing.is_closed
    assert failures == ["Refusing refused a comparison: no space left"]


def test_a_line_holds_every_field_but_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "new" / "shadow.jsonl"
    sink = JsonLinesSink(path, max_bytes=1 << 20)
    sink.put(RECORD)
    sink.put(FAILED)
    sink.close()
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first == json.loads(json.dumps(without_texts(RECORD)))
    assert "secret" not in path.read_text()
    assert first["shadow"]["sampler_id"] == "bolt"
    assert second["shadow"]["failure_kind"] == "deadline"
    assert path.stat().st_mode & 0o077 == 0


def test_lines_are_kept_in_two_files_of_bounded_size(tmp_path: Path) -> None:
    path, bound = tmp_path / "shadow.jsonl", 5_000
    sink = JsonLinesSink(path, bound)
    for number in range(40):
        sink.put(replace(RECORD, comparison_id=f"c{number}"))
    older = tmp_path / "shadow.jsonl.1"
    assert sorted(tmp_path.iterdir()) == [path, older]
    kept = [json.loads(line) for file in (older, path) for line in file.read_text().splitlines()]
    assert [line["comparison_id"] for line in kept][-1] == "c39"
    assert all(file.stat().st_size <= bound for file in (older, path))


def test_metrics_and_a_log_event_tell_of_a_comparison(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = configure_telemetry(TelemetryConfig(service_version="0"))
    sink = TelemetrySink(Metrics(telemetry.meter_provider, sampler_ids=["aks", "bolt"]))
    with caplog.at_level(logging.INFO, "shadow.sinks"):
        sink.put(RECORD)
        sink.put(FAILED)
    text = telemetry.metrics_text().decode()
    labels = 'kind="sampler",outcome="{}",sampler="bolt"'
    for outcome in ("compared", "shadow_failed"):
        line = f"framegate_shadow_comparisons_total{{{labels.format(outcome)}}} 1.0"
        assert line in text
    assert 'framegate_shadow_failures_total{kind="deadline",sampler="bolt"} 1.0' in text
    assert 'framegate_shadow_overlap_sum{kind="sampler",sampler="bolt"} 1.0' in text
    assert 'framegate_shadow_agreement_sum{kind="sampler",sampler="bolt"} 0.75' in text
    assert 'framegate_shadow_relevance_sum{sampler="aks",side="control"} 0.5' in text
    assert [record.getMessage() for record in caplog.records] == ["shadow.compared"] * 2
    assert "secret" not in str([vars(record) for record in caplog.records])


def test_a_failed_shadow_outweighs_a_failed_control() -> None:
    control_failed = replace(RECORD, control=replace(SIDE, failure_kind="raised"))
    assert outcome_of(RECORD) is ShadowOutcome.COMPARED
    assert outcome_of(control_failed) is ShadowOutcome.CONTROL_FAILED
    assert outcome_of(replace(control_failed, shadow=FAILED.shadow)) is ShadowOutcome.SHADOW_FAILED
