"""Builds the shadow side of a gateway out of its settings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from app.answer_load import AnswerLoad
from app.sampler_breaker import BreakerRule, SamplerBreaker
from app.scorer.spec import scorer_spec
from app.settings import Settings
from app.shadow_answers import AnswererParts, ShadowAnswerRules
from app.shadow_record import OrderRules
from app.shadow_side import ShadowParts, ShadowSide
from app.shadow_tenants import TenantCounts
from app.shadow_vectors import ShadowVectors
from app.shadow_video import ShadowModel
from app.stages import Stages
from flags.keys import BASELINE
from observability.metrics import Metrics
from observability.names import Event
from observability.repeats import AlarmLog, RepeatLimiter
from shadow.order import Greeting
from shadow.policy import ShadowRules
from shadow.records import ComparisonRecord
from shadow.runner import RunnerLimits, RunnerParts, ShadowRunner
from shadow.sinks import FanOut, JsonLinesSink, Sink, TelemetrySink

logger = logging.getLogger(__name__)


class LedgerSink:
    """The ledger's writer as a sink: it takes a record at once and writes it in batches."""

    def __init__(self, put_comparison: Callable[[ComparisonRecord], None]) -> None:
        self._put_comparison = put_comparison

    def put(self, record: ComparisonRecord) -> None:
        self._put_comparison(record)

    def close(self) -> None:
        """The writer is the gateway's to close."""


class ShadowReports:
    """The runner's `Reports`: metrics, and an alarm for what costs comparisons."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._alarms = AlarmLog(logger, RepeatLimiter())

    def queue_is(self, num_waiting: int) -> None:
        self._metrics.shadow_queue_is(num_waiting)

    def restarted(self) -> None:
        self._metrics.shadow_process_restarted()

    def failed(self, what: str, error: Exception) -> None:
        self._alarms.raise_alarm(Event.SHADOW_FAILED, what, f"{what}: {error}", exc_info=error)


@dataclass(frozen=True, slots=True)
class ShadowNeeds:
    """What the shadow shares with the answers."""

    settings: Settings
    metrics: Metrics
    stages: Stages
    load: AnswerLoad


def build_shadow(needs: ShadowNeeds, other_sinks: tuple[Sink, ...] = ()) -> ShadowSide:
    """`other_sinks` get every record besides telemetry and, where one is named, the file."""
    settings, stages = needs.settings, needs.stages
    reports = ShadowReports(needs.metrics)
    vectors = ShadowVectors(stages.encoder, stages.inputs.query_vectors)
    return ShadowSide(
        ShadowParts(
            rules=_rules(settings),
            orders=OrderRules(stages.table, settings.shadow_tolerance_s, _model(settings)),
            reducer=stages.reducer,
            vectors=vectors,
            load=needs.load,
            runner=_runner(needs, reports),
            sink=FanOut((*_sinks(needs), *other_sinks), reports.failed),
            metrics=needs.metrics,
            tenants=TenantCounts(monotonic),
            hash_user=stages.decider.user_hash,
            answerer=_answerer(needs, vectors),
        )
    )


def _model(settings: Settings) -> ShadowModel | None:
    """With few calls at a time: answers ask the same server."""
    spec = scorer_spec(settings)
    if spec is None:
        return None
    concurrency = max(1, spec.concurrency // 4)
    return ShadowModel(replace(spec, concurrency=concurrency), settings.model_selection_deadline_s)


def _rules(settings: Settings) -> ShadowRules:
    return ShadowRules(
        baseline_id=BASELINE,
        aa_share=settings.shadow_aa_share,
        max_running_answers=settings.shadow_max_running_answers,
        tenant_per_minute=settings.shadow_tenant_per_minute,
    )


def _runner(needs: ShadowNeeds, reports: ShadowReports) -> ShadowRunner:
    settings, load = needs.settings, needs.load
    entries = needs.stages.table.registry.entries.values()
    parts = RunnerParts(
        limits=RunnerLimits(
            settings.shadow_queue,
            settings.shadow_deadline_s,
            max(settings.shadow_deadline_s, settings.model_selection_deadline_s),
        ),
        greeting=Greeting(tuple(entry.target for entry in entries if not entry.is_builtin)),
        resting=SamplerBreaker(BreakerRule(), monotonic),
        reports=reports,
        is_loaded=lambda: load.num_running > settings.shadow_max_running_answers,
    )
    return ShadowRunner(parts)


def _sinks(needs: ShadowNeeds) -> tuple[Sink, ...]:
    telemetry, path = TelemetrySink(needs.metrics), needs.settings.shadow_log_file
    if path is None:
        return (telemetry,)
    return (telemetry, JsonLinesSink(path, needs.settings.shadow_log_max_bytes))


def _answerer(needs: ShadowNeeds, vectors: ShadowVectors) -> AnswererParts:
    settings, stages = needs.settings, needs.stages
    return AnswererParts(
        encoder=stages.encoder,
        frame_encoder=stages.frame_encoder,
        reducer=stages.reducer,
        generator=stages.generator,
        vectors=vectors,
        load=needs.load,
        rules=ShadowAnswerRules(
            settings.shadow_answer_max_running,
            settings.shadow_answer_wait_s,
            settings.shadow_answer_timeout_s,
        ),
    )
