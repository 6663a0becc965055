"""What the ledger knows of a rollout's running stage, as the columns that guards are computed from.

Read incrementally and kept in memory, because guards are looked at every second: only what came
since the last look is read. A stage's rows go when the next stage begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.exposure_columns import ExposureColumns, Floats
from app.offline_scores import latest_score
from app.stores.ledger import Ledger
from app.stores.ledger_rows import Exposure, FeedbackVerdict, OfflineScore
from app.stores.rows import AnswerState
from flags.outcomes import BoolColumn, Outcomes
from flags.rollout_plan import Figure, Rollout
from observability.names import SamplerFailure
from shadow.records import ComparisonKind, ComparisonRecord

BATCH_ROWS = 20_000
MAX_EXPOSURES = 400_000
"""About 100 MB. A stage with more is judged by its latest ones."""
REREAD_ROWS = 10_000
"""When a stage begins: rows that were read just now, for the stage before, may belong to it."""
COMPARISON_LATENESS_S = 120.0
"""A comparison may be written so long after the question that it is about."""
COMPARISONS_EVERY_S = 5.0

SHADOW_FIGURES = frozenset({Figure.SHADOW_RELEVANCE, Figure.ANSWER_AGREEMENT})
IS_CANDIDATE = "is_candidate"
ENDED_S = "ended_s"
KNOWN_S = "known_s."
LATE_FIGURES = (Figure.SHADOW_RELEVANCE, Figure.ANSWER_AGREEMENT, Figure.FEEDBACK)
COLUMNS = (IS_CANDIDATE, ENDED_S, *Figure, *(KNOWN_S + figure for figure in LATE_FIGURES))


@dataclass(slots=True)
class _Reading:
    """How far one running stage was read."""

    rollout_id: str
    epoch: int
    since_s: float
    columns: ExposureColumns
    exposure_sequence: int = 0
    feedback_sequence: int = 0
    comparisons_until_s: float | None = None


class LedgerOutcomes:
    """An `OutcomesSource` over one ledger. Shared by threads; blocks on the ledger.

    `outcomes` raises `LedgerUnavailableError`.
    """

    def __init__(
        self, ledger: Ledger, clock: Callable[[], float], *, max_exposures: int = MAX_EXPOSURES
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._max_exposures = max_exposures
        self._lock = threading.Lock()
        self._reading: _Reading | None = None

    def outcomes(self, rollout: Rollout) -> Outcomes:
        """The exposures that were asked for since the stage began, arms as assigned."""
        with self._lock:
            reading = self._reading_of(rollout)
            self._read_exposures(rollout, reading)
            wanted = {guard.figure for guard in rollout.plan.guards}
            if Figure.FEEDBACK in wanted:
                self._read_feedback(rollout, reading)
            if wanted & SHADOW_FIGURES:
                self._read_comparisons(reading)
            return self._outcomes(rollout, reading.columns, wanted)

    def _reading_of(self, rollout: Rollout) -> _Reading:
        """Where the last look at this stage ended, or a new beginning."""
        known = self._reading
        key = (rollout.rollout_id, rollout.epoch, rollout.stage_started_s)
        if known is not None and (known.rollout_id, known.epoch, known.since_s) == key:
            return known
        reading = _Reading(*key, ExposureColumns(COLUMNS, self._max_exposures))
        if known is not None:
            reading.exposure_sequence = max(0, known.exposure_sequence - REREAD_ROWS)
        self._reading = reading
        return reading

    def _read_exposures(self, rollout: Rollout, reading: _Reading) -> None:
        while True:
            rows = self._ledger.exposures_after(
                reading.exposure_sequence, salt=rollout.salt, limit=BATCH_ROWS
            )
            for row in rows:
                if _counts(row, rollout):
                    reading.columns.append(row.answer_id, row.user_hash, _values(row, rollout))
            if rows:
                reading.exposure_sequence = rows[-1].sequence
            if len(rows) < BATCH_ROWS:
                return

    def _read_feedback(self, rollout: Rollout, reading: _Reading) -> None:
        while True:
            changes = self._ledger.feedback_after(
                reading.feedback_sequence, salt=rollout.salt, limit=BATCH_ROWS
            )
            for change in changes:
                is_good = float(change.verdict is FeedbackVerdict.GOOD)
                _set_late(
                    reading.columns, change.answer_id, Figure.FEEDBACK, is_good, change.created_s
                )
            if changes:
                reading.feedback_sequence = changes[-1].sequence
            if len(changes) < BATCH_ROWS:
                return

    def _read_comparisons(self, reading: _Reading) -> None:
        now_s = self._clock()
        read_until_s = reading.comparisons_until_s
        if read_until_s is not None and now_s - read_until_s < COMPARISONS_EVERY_S:
            return
        since_s = reading.since_s
        if read_until_s is not None:
            since_s = max(since_s, read_until_s - COMPARISON_LATENESS_S)
        for record in self._ledger.comparisons(since_s, now_s):
            _set_comparison(reading.columns, record)
        reading.comparisons_until_s = now_s

    def _outcomes(
        self, rollout: Rollout, columns: ExposureColumns, wanted: set[Figure]
    ) -> Outcomes:
        is_candidate = columns.column(IS_CANDIDATE) == 1.0
        figures = {figure: columns.column(figure) for figure in Figure}
        if Figure.OFFLINE_SCORE in wanted:
            figures[Figure.OFFLINE_SCORE] = self._scores(rollout, is_candidate)
        return Outcomes(
            user=columns.users(),
            is_candidate=is_candidate,
            ended_s=columns.column(ENDED_S),
            figures=figures,
            known_s={figure: columns.column(KNOWN_S + figure) for figure in LATE_FIGURES},
        )

    def _scores(self, rollout: Rollout, is_candidate: BoolColumn) -> Floats:
        plan, facts = rollout.plan, rollout.facts
        candidate = latest_score(self._ledger, plan.candidate, facts.candidate_version)
        control = latest_score(self._ledger, plan.control, facts.control_version)
        scores: Floats = np.where(is_candidate, _or_nan(candidate), _or_nan(control))
        return scores


def _or_nan(score: OfflineScore | None) -> float:
    return np.nan if score is None else score.score


def _counts(row: Exposure, rollout: Rollout) -> bool:
    """Asked for in the running stage, answered with what the epoch is about."""
    facts, plan = rollout.facts, rollout.plan
    version = {
        plan.candidate: facts.candidate_version,
        plan.control: facts.control_version,
    }.get(row.decided_sampler_id)
    made_with = (row.encoder_id, row.reducer_id, row.profile, row.llm_id)
    return (
        row.created_s >= rollout.stage_started_s
        and version is not None
        and row.decided_sampler_version == version
        and made_with == (facts.encoder_id, facts.reducer_id, facts.profile, facts.llm_id)
    )


def _values(row: Exposure, rollout: Rollout) -> dict[str, float]:
    is_done = row.state == AnswerState.DONE
    is_dependency = row.fallback_kind == SamplerFailure.DEPENDENCY
    has_failed = row.fallback_kind is not None
    values: dict[str, float] = {
        IS_CANDIDATE: float(row.decided_sampler_id == rollout.plan.candidate),
        ENDED_S: row.ended_s,
        Figure.SAMPLER_FAILURE: float(has_failed and not is_dependency),
        Figure.DEPENDENCY_FAILURE: float(is_dependency),
        Figure.FALLBACK: float(has_failed),
        Figure.ANSWER_ERROR: float(row.state == AnswerState.FAILED),
        Figure.TOTAL_S: row.total_s,
        Figure.MODEL_CALLS: float(row.model_calls),
        Figure.ENCODER_DEVICE_S: row.encoder_device_s,
    }
    if row.selection_s is not None:
        values[Figure.SELECTION_S] = row.selection_s
    if is_done:
        values[Figure.VISION_TOKENS] = float(row.vision_tokens)
    return values


def _set_comparison(columns: ExposureColumns, record: ComparisonRecord) -> None:
    relevance = record.control.relevance
    if relevance is not None:
        _set_late(columns, record.answer_id, Figure.SHADOW_RELEVANCE, relevance, record.created_s)
    if record.answers_agree is not None and record.kind is ComparisonKind.SAMPLER:
        agreement = record.answers_agree
        _set_late(columns, record.answer_id, Figure.ANSWER_AGREEMENT, agreement, record.created_s)


def _set_late(
    columns: ExposureColumns, answer_id: str, figure: Figure, value: float, known_s: float
) -> None:
    columns.set(answer_id, figure, value)
    columns.set(answer_id, KNOWN_S + figure, known_s)
