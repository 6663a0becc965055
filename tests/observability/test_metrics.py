from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observability.metric import Kind
from observability.metrics import Metrics
from observability.names import (
    ALL_METRICS,
    Cache,
    ChildProcess,
    EncoderWork,
    Outcome,
    SamplerFailure,
    Stage,
    VideoStatus,
)
from observability.setup import TelemetryConfig, configure_telemetry
from observability.shadow_names import ShadowAnswer, ShadowOutcome, ShadowShed, ShadowSide
from observability.stages import stage
from tests.observability.conftest import World


@pytest.fixture
def metrics(world: World) -> Metrics:
    return Metrics(world.telemetry.meter_provider, sampler_ids=["uniform", "aks"])


def _use_everything(metrics: Metrics) -> None:
    metrics.answer_finished(Outcome.OK, 1.5)
    metrics.first_token_sent(0.4)
    metrics.vision_tokens_reduced(before=16, after=8)
    metrics.answer_used_encoder(0.0)
    metrics.sampler_selected("aks", 0.002)
    metrics.sampler_failed("aks", SamplerFailure.DEADLINE)
    metrics.sampler_fell_back("aks")
    metrics.cache_looked_up(Cache.FEATURES, hit=True)
    metrics.cache_looked_up(Cache.FEATURES, hit=False)
    metrics.cache_looked_up(Cache.MODEL_SCORES, hit=True, count=60)
    metrics.scorer_asked(calls=5, retries=1)
    metrics.scorer_used_tokens(input_tokens=900, output_tokens=4)
    metrics.scorer_waited_for(1.5)
    metrics.scorer_given_up(openings=1, refusals=2)
    metrics.decode_worker_started()
    metrics.packets_damaged(3)
    metrics.pictures_encoded(40)
    metrics.queries_encoded(1)
    metrics.encoder_worked(EncoderWork.INDEX, 2.5)
    metrics.video_finished(VideoStatus.READY)
    metrics.upload_received(1024)
    metrics.flag_evaluated("SPLIT")
    metrics.flags_alarm_raised()
    metrics.flags_are(refused=True)
    metrics.kill_switch_is(on=True)
    metrics.llm_unavailable()
    metrics.llm_used_tokens(input_tokens=600, output_tokens=30)
    metrics.generation_cancelled()
    metrics.observe_process_restarts(lambda: {ChildProcess.LLM: 1})
    _use_the_shadow(metrics)


UNIFORM_SHADOW = {"sampler": "uniform", "kind": "sampler"}
EXPECTED: list[tuple[str, dict[str, str], float]] = [
    ("framegate_answers_total", {"outcome": "ok"}, 1),
    ("framegate_answer_duration_seconds_sum", {"outcome": "ok"}, 1.5),
    ("framegate_answer_time_to_first_token_seconds_sum", {}, 0.4),
    ("framegate_answer_vision_tokens_sum", {"when": "before"}, 16),
    ("framegate_answer_vision_tokens_sum", {"when": "after"}, 8),
    ("framegate_answer_encoder_device_seconds_bucket", {"le": "0.0"}, 1),
    ("framegate_sampler_selections_total", {"sampler": "aks"}, 1),
    ("framegate_sampler_duration_seconds_sum", {"sampler": "aks"}, 0.002),
    ("framegate_sampler_failures_total", {"sampler": "aks", "kind": "deadline"}, 1),
    ("framegate_sampler_fallbacks_total", {"sampler": "aks"}, 1),
    ("framegate_cache_lookups_total", {"cache": "features", "result": "hit"}, 1),
    ("framegate_cache_lookups_total", {"cache": "features", "result": "miss"}, 1),
    ("framegate_cache_lookups_total", {"cache": "model_scores", "result": "hit"}, 60),
    ("framegate_scorer_calls_total", {"attempt": "first"}, 4),
    ("framegate_scorer_calls_total", {"attempt": "retry"}, 1),
    ("framegate_scorer_tokens_total", {"kind": "input"}, 900),
    ("framegate_scorer_tokens_total", {"kind": "output"}, 4),
    ("framegate_scorer_wait_seconds_sum", {}, 1.5),
    ("framegate_scorer_breaker_openings_total", {}, 1),
    ("framegate_scorer_breaker_refusals_total", {}, 2),
    ("framegate_decode_workers_started_total", {}, 1),
    ("framegate_decode_damaged_packets_total", {}, 3),
    ("framegate_encoder_pictures_encoded_total", {}, 40),
    ("framegate_encoder_queries_encoded_total", {}, 1),
    ("framegate_encoder_device_seconds_total", {"work": "index"}, 2.5),
    ("framegate_videos_total", {"status": "ready"}, 1),
    ("framegate_uploads_bytes_total", {}, 1024),
    ("framegate_flags_evaluations_total", {"reason": "split"}, 1),
    ("framegate_flags_alarms_total", {}, 1),
    ("framegate_flags_refused", {}, 1),
    ("framegate_kill_switch_on", {}, 1),
    ("framegate_llm_unavailable_total", {}, 1),
    ("framegate_llm_tokens_total", {"kind": "input"}, 600),
    ("framegate_llm_tokens_total", {"kind": "output"}, 30),
    ("framegate_generations_cancelled_total", {}, 1),
    ("framegate_process_restarts_total", {"process": "llm"}, 1),
    (
        "framegate_shadow_comparisons_total",
        {"sampler": "uniform", "kind": "sampler", "outcome": "compared"},
        1,
    ),
    ("framegate_shadow_failures_total", {"sampler": "uniform", "kind": "deadline"}, 1),
    ("framegate_shadow_shed_total", {"reason": "load"}, 1),
    ("framegate_shadow_queue", {}, 4),
    ("framegate_shadow_process_restarts_total", {}, 1),
    ("framegate_shadow_selection_duration_seconds_sum", {"sampler": "aks", "side": "control"}, 0.2),
    ("framegate_shadow_relevance_sum", {"sampler": "uniform", "side": "shadow"}, 0.25),
    ("framegate_shadow_overlap_sum", UNIFORM_SHADOW, 0.5),
    (
        "framegate_shadow_temporal_distance_seconds_sum",
        {"sampler": "uniform", "kind": "sampler"},
        2.0,
    ),
    ("framegate_shadow_answers_total", {"outcome": "compared"}, 1),
    ("framegate_shadow_agreement_sum", {"sampler": "uniform", "kind": "a_a"}, 1.0),
    ("framegate_shadow_model_calls_total", {"sampler": "uniform", "side": "shadow"}, 64),
    ("framegate_shadow_model_tokens_total", {"sampler": "uniform", "side": "shadow"}, 7000),
]


def _use_the_shadow(metrics: Metrics) -> None:
    metrics.shadow_compared("uniform", "sampler", ShadowOutcome.COMPARED)
    metrics.shadow_failed("uniform", SamplerFailure.DEADLINE)
    metrics.shadow_shed(ShadowShed.LOAD)
    metrics.shadow_queue_is(4)
    metrics.shadow_process_restarted()
    metrics.shadow_selected("aks", ShadowSide.CONTROL, 0.2)
    metrics.shadow_relevance_is("uniform", ShadowSide.SHADOW, 0.25)
    metrics.shadow_differed("uniform", "sampler", overlap=0.5, distance_s=2.0)
    metrics.shadow_answer_ended(ShadowAnswer.COMPARED)
    metrics.shadow_answers_agree("uniform", "a_a", 1.0)
    metrics.shadow_asked_model("uniform", ShadowSide.SHADOW, calls=64, tokens=7000)


def test_each_method_reaches_its_metric_in_prometheus(world: World, metrics: Metrics) -> None:
    _use_everything(metrics)
    found = [(name, labels, world.sample(name, **labels)) for name, labels, _ in EXPECTED]
    assert found == EXPECTED


def test_every_metric_has_a_method(world: World, metrics: Metrics) -> None:
    _use_everything(metrics)
    with world.telemetry.activated(), stage(Stage.REDUCE):
        pass
    exported = {name for name, _ in world.samples()}
    for metric in ALL_METRICS:
        plain = metric.name.replace(".", "_")
        assert any(name.startswith(plain) for name in exported), metric.name


def test_counters_are_visible_at_zero_before_anything_happens(
    world: World, metrics: Metrics
) -> None:
    assert world.sample("framegate_encoder_pictures_encoded_total") == 0
    assert world.sample("framegate_decode_workers_started_total") == 0
    failures = {"sampler": "aks", "kind": "breaker_open"}
    assert world.sample("framegate_sampler_failures_total", **failures) == 0
    assert world.sample("framegate_kill_switch_on") == 0


def test_an_unregistered_sampler_counts_as_unknown(world: World, metrics: Metrics) -> None:
    metrics.sampler_failed("no-such-sampler", SamplerFailure.UNKNOWN)
    labels = {"sampler": "unknown", "kind": "unknown"}
    assert world.sample("framegate_sampler_failures_total", **labels) == 1


def test_a_foreign_reason_counts_as_unknown(world: World, metrics: Metrics) -> None:
    metrics.flag_evaluated("because I say so")
    assert world.sample("framegate_flags_evaluations_total", reason="unknown") == 1


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(), max_size=20))
def test_no_text_from_outside_adds_a_series(texts: list[str]) -> None:
    world = World(configure_telemetry(TelemetryConfig(service_version="9.9")))
    metrics = Metrics(world.telemetry.meter_provider, sampler_ids=["uniform"])
    metrics.sampler_selected("uniform", 0.001)
    metrics.sampler_selected("unheard-of", 0.001)
    before = world.samples().keys()
    for text in texts:
        metrics.sampler_selected(text, 0.001)
        metrics.sampler_failed(text, SamplerFailure.RAISED)
        metrics.sampler_fell_back(text)
        metrics.flag_evaluated(text)
    assert world.samples().keys() == before
    world.telemetry.shutdown()


def test_a_label_that_is_not_declared_is_dropped(world: World) -> None:
    answers = next(metric for metric in ALL_METRICS if metric.name == "framegate.answers")
    assert answers.kind is Kind.COUNTER
    counter = world.telemetry.meter_provider.get_meter("framegate").create_counter(
        answers.name, answers.unit, answers.meaning
    )
    counter.add(1, {"outcome": "ok", "user_id": "user-ada"})
    assert world.sample("framegate_answers_total", outcome="ok") == 1
    assert "user-ada" not in world.telemetry.metrics_text().decode()
