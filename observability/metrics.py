"""The metrics of one service, as methods that say what happened. Built once, passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product

from opentelemetry.metrics import (
    CallbackOptions,
    Counter,
    Histogram,
    MeterProvider,
    Observation,
)

from observability import ledger_names, names, rollout_names, scorer_names, shadow_names
from observability.ledger_names import LedgerDrop, LedgerTable
from observability.metric import SAMPLER_LABEL, UNKNOWN, Kind, Metric
from observability.names import (
    ALL_METRICS,
    Cache,
    ChildProcess,
    EncoderWork,
    FlagReason,
    Outcome,
    SamplerFailure,
    VideoStatus,
)
from observability.rollout_names import (
    GuardFigure,
    GuardVerdict,
    RolloutStateLabel,
    RolloutStepLabel,
)
from observability.shadow_names import ShadowAnswer, ShadowOutcome, ShadowShed, ShadowSide

_REASONS = frozenset(str(reason) for reason in FlagReason)


class Metrics:
    """Counts and measures; every label value comes from a closed set.

    `sampler_ids` are the registered samplers; any other id is counted as `unknown`. Counters start
    at 0 for every value of their labels, so that the first event is a visible increase.
    """

    def __init__(self, meter_provider: MeterProvider, *, sampler_ids: Iterable[str]) -> None:
        self._sampler_ids = frozenset(sampler_ids)
        self._meter = meter = meter_provider.get_meter(names.SCOPE)
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._set_gauge: dict[str, Callable[..., None]] = {}
        for metric in ALL_METRICS:
            if metric is names.PROCESS_RESTARTS:
                continue
            name, unit, meaning = metric.name, metric.unit, metric.meaning
            if metric.kind is Kind.COUNTER:
                self._counters[name] = meter.create_counter(name, unit, meaning)
                self._start_at_zero(metric)
            elif metric.kind is Kind.HISTOGRAM:
                self._histograms[name] = meter.create_histogram(name, unit, meaning)
            else:
                self._set_gauge[name] = meter.create_gauge(name, unit, meaning).set
                self._start_at_zero(metric)

    def answer_finished(self, outcome: Outcome, duration_s: float) -> None:
        labels = {"outcome": str(outcome)}
        self._add(names.ANSWERS, 1, labels)
        self._record(names.ANSWER_DURATION, duration_s, labels)

    def first_token_sent(self, after_s: float) -> None:
        self._record(names.ANSWER_TIME_TO_FIRST_TOKEN, after_s)

    def vision_tokens_reduced(self, *, before: int, after: int) -> None:
        """Vision tokens of one answer (all its videos) before and after the reducer."""
        self._record(names.ANSWER_VISION_TOKENS, before, {"when": "before"})
        self._record(names.ANSWER_VISION_TOKENS, after, {"when": "after"})

    def answer_used_encoder(self, device_s: float) -> None:
        """Device-seconds of one answer; record 0 too, so that the share of free answers shows."""
        self._record(names.ANSWER_ENCODER_DEVICE_SECONDS, device_s)

    def sampler_selected(self, sampler_id: str, duration_s: float) -> None:
        labels = self._sampler(sampler_id)
        self._add(names.SAMPLER_SELECTIONS, 1, labels)
        self._record(names.SAMPLER_DURATION, duration_s, labels)

    def sampler_failed(self, sampler_id: str, kind: SamplerFailure) -> None:
        self._add(names.SAMPLER_FAILURES, 1, self._sampler(sampler_id) | {"kind": str(kind)})

    def sampler_fell_back(self, sampler_id: str) -> None:
        """`uniform` stood in for `sampler_id`."""
        self._add(names.SAMPLER_FALLBACKS, 1, self._sampler(sampler_id))

    def cache_looked_up(self, cache: Cache, *, hit: bool, count: int = 1) -> None:
        labels = {"cache": str(cache), "result": "hit" if hit else "miss"}
        self._add(names.CACHE_LOOKUPS, count, labels)

    def scorer_asked(self, *, calls: int, retries: int) -> None:
        """`calls` in all, of which `retries` repeated one that failed."""
        self._add(scorer_names.SCORER_CALLS, calls - retries, {"attempt": "first"})
        self._add(scorer_names.SCORER_CALLS, retries, {"attempt": "retry"})

    def scorer_used_tokens(self, *, input_tokens: int, output_tokens: int) -> None:
        self._add(scorer_names.SCORER_TOKENS, input_tokens, {"kind": "input"})
        self._add(scorer_names.SCORER_TOKENS, output_tokens, {"kind": "output"})

    def scorer_waited_for(self, seconds: float) -> None:
        """By one selection."""
        self._record(scorer_names.SCORER_WAIT, seconds)

    def scorer_given_up(self, *, openings: int, refusals: int) -> None:
        self._add(scorer_names.SCORER_BREAKER_OPENINGS, openings)
        self._add(scorer_names.SCORER_BREAKER_REFUSALS, refusals)

    def decode_worker_started(self) -> None:
        self._add(names.DECODE_WORKERS_STARTED, 1)

    def packets_damaged(self, num_packets: int) -> None:
        self._add(names.DECODE_DAMAGED_PACKETS, num_packets)

    def pictures_encoded(self, num_pictures: int) -> None:
        self._add(names.ENCODER_PICTURES_ENCODED, num_pictures)

    def queries_encoded(self, num_queries: int) -> None:
        self._add(names.ENCODER_QUERIES_ENCODED, num_queries)

    def encoder_worked(self, work: EncoderWork, device_s: float) -> None:
        self._add(names.ENCODER_DEVICE_SECONDS, device_s, {"work": str(work)})

    def video_finished(self, status: VideoStatus) -> None:
        self._add(names.VIDEOS, 1, {"status": str(status)})

    def upload_received(self, num_bytes: int) -> None:
        self._add(names.UPLOADS_BYTES, num_bytes)

    def flag_evaluated(self, reason: str) -> None:
        """`reason` is the provider's word, in any case; a foreign one counts as `unknown`."""
        known = reason.lower()
        self._add(names.FLAGS_EVALUATIONS, 1, {"reason": known if known in _REASONS else UNKNOWN})

    def flags_alarm_raised(self) -> None:
        self._add(names.FLAGS_ALARMS, 1)

    def flags_are(self, *, refused: bool) -> None:
        self._set(names.FLAGS_REFUSED, int(refused))

    def kill_switch_is(self, *, on: bool) -> None:
        self._set(names.KILL_SWITCH_ON, int(on))

    def llm_unavailable(self) -> None:
        self._add(names.LLM_UNAVAILABLE, 1)

    def llm_used_tokens(self, *, input_tokens: int, output_tokens: int) -> None:
        self._add(names.LLM_TOKENS, input_tokens, {"kind": "input"})
        self._add(names.LLM_TOKENS, output_tokens, {"kind": "output"})

    def generation_cancelled(self) -> None:
        self._add(names.GENERATIONS_CANCELLED, 1)

    def shadow_compared(self, shadow_id: str, kind: str, outcome: ShadowOutcome) -> None:
        labels = {"kind": kind, "outcome": str(outcome)}
        self._add(shadow_names.SHADOW_COMPARISONS, 1, self._sampler(shadow_id) | labels)

    def shadow_failed(self, shadow_id: str, kind: str) -> None:
        """`kind` is a `SamplerFailure`."""
        self._add(names.SHADOW_FAILURES, 1, self._sampler(shadow_id) | {"kind": kind})

    def shadow_selected(self, sampler_id: str, side: ShadowSide, duration_s: float) -> None:
        labels = self._sampler(sampler_id) | {"side": str(side)}
        self._record(shadow_names.SHADOW_SELECTION_DURATION, duration_s, labels)

    def shadow_asked_model(
        self, sampler_id: str, side: ShadowSide, *, calls: int, tokens: int
    ) -> None:
        labels = self._sampler(sampler_id) | {"side": str(side)}
        self._add(shadow_names.SHADOW_MODEL_CALLS, calls, labels)
        self._add(shadow_names.SHADOW_MODEL_TOKENS, tokens, labels)

    def shadow_relevance_is(self, sampler_id: str, side: ShadowSide, relevance: float) -> None:
        labels = self._sampler(sampler_id) | {"side": str(side)}
        self._record(shadow_names.SHADOW_RELEVANCE, max(0.0, relevance), labels)

    def shadow_differed(
        self, shadow_id: str, kind: str, *, overlap: float, distance_s: float
    ) -> None:
        labels = self._sampler(shadow_id) | {"kind": kind}
        self._record(shadow_names.SHADOW_OVERLAP, overlap, labels)
        self._record(shadow_names.SHADOW_TEMPORAL_DISTANCE, distance_s, labels)

    def shadow_answers_agree(self, shadow_id: str, kind: str, agreement: float) -> None:
        labels = self._sampler(shadow_id) | {"kind": kind}
        self._record(shadow_names.SHADOW_AGREEMENT, agreement, labels)

    def shadow_shed(self, reason: ShadowShed) -> None:
        self._add(shadow_names.SHADOW_SHED, 1, {"reason": str(reason)})

    def shadow_answer_ended(self, outcome: ShadowAnswer) -> None:
        self._add(shadow_names.SHADOW_ANSWERS, 1, {"outcome": str(outcome)})

    def shadow_queue_is(self, num_waiting: int) -> None:
        self._set(shadow_names.SHADOW_QUEUE, num_waiting)

    def shadow_process_restarted(self) -> None:
        self._add(shadow_names.SHADOW_PROCESS_RESTARTS, 1)

    def ledger_rows_written(self, table: LedgerTable, num_rows: int) -> None:
        self._add(ledger_names.LEDGER_ROWS_WRITTEN, num_rows, {"table": str(table)})

    def ledger_rows_dropped(self, table: LedgerTable, reason: LedgerDrop, num_rows: int) -> None:
        labels = {"table": str(table), "reason": str(reason)}
        self._add(ledger_names.LEDGER_ROWS_DROPPED, num_rows, labels)

    def ledger_write_failed(self) -> None:
        self._add(ledger_names.LEDGER_WRITE_FAILURES, 1)

    def ledger_queue_is(self, num_rows: int) -> None:
        self._set(ledger_names.LEDGER_QUEUED_ROWS, num_rows)

    def rollout_is(self, state: RolloutStateLabel | None, *, weight: int, stage: int) -> None:
        """What the rollout that is not over is like; None and zeros where there is none."""
        for one in RolloutStateLabel:
            self._set(rollout_names.ROLLOUT_STATE, int(one == state), {"state": str(one)})
        self._set(rollout_names.ROLLOUT_WEIGHT, weight)
        self._set(rollout_names.ROLLOUT_STAGE, stage)

    def rollout_step_taken(self, kind: RolloutStepLabel) -> None:
        self._add(rollout_names.ROLLOUT_STEPS, 1, {"kind": str(kind)})

    def guard_judged(self, figure: GuardFigure, verdict: GuardVerdict) -> None:
        labels = {"figure": str(figure), "verdict": str(verdict)}
        self._add(rollout_names.ROLLOUT_GUARD_VERDICTS, 1, labels)

    def rollout_look_failed(self) -> None:
        self._add(rollout_names.ROLLOUT_LOOK_FAILURES, 1)

    def observe_process_restarts(self, counts: Callable[[], Mapping[ChildProcess, int]]) -> None:
        """Others count them: `counts` is asked whenever the metrics are read. Call once."""

        def observe(_: CallbackOptions) -> list[Observation]:
            known = counts()
            return [Observation(known.get(one, 0), {"process": str(one)}) for one in ChildProcess]

        metric = names.PROCESS_RESTARTS
        self._meter.create_observable_counter(metric.name, [observe], metric.unit, metric.meaning)

    def _sampler(self, sampler_id: str) -> dict[str, str]:
        return {"sampler": sampler_id if sampler_id in self._sampler_ids else UNKNOWN}

    def _add(self, metric: Metric, amount: float, labels: dict[str, str] | None = None) -> None:
        self._counters[metric.name].add(amount, labels)

    def _set(self, metric: Metric, value: float, labels: dict[str, str] | None = None) -> None:
        self._set_gauge[metric.name](value, labels)

    def _record(self, metric: Metric, value: float, labels: dict[str, str] | None = None) -> None:
        self._histograms[metric.name].record(value, labels)

    def _start_at_zero(self, metric: Metric) -> None:
        values = [
            (*label.values, *sorted(self._sampler_ids)) if label is SAMPLER_LABEL else label.values
            for label in metric.labels
        ]
        for combination in product(*values):
            names_of = (label.name for label in metric.labels)
            labels = dict(zip(names_of, map(str, combination), strict=True))
            put = self._set if metric.kind is Kind.GAUGE else self._add
            put(metric, 0, labels)
