"""Stage 3, sample: `VideoHandle, query, budget, scenes -> list[int]`, and never a failed answer.

A sampler that raises, breaks the contract, overruns its deadline or lacks its features is replaced,
for this answer, by `uniform`; the failure is reported and counted by kind. This is the one place
with a broad `except`: a sampler is foreign code.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

from app.sampler_breaker import SamplerBreaker
from app.sampler_table import SamplerTable
from app.scorer.spec import NO_COST, ModelCost
from app.stores.video_handle import StoredVideoHandle
from observability.logs import log_event
from observability.metrics import Metrics
from observability.names import Cache, Event, SamplerFailure
from samplers.contract import (
    ContractViolationError,
    FeaturesMissingError,
    Sampler,
    Scene,
    check_selection,
    noted_selection,
)

logger = logging.getLogger(__name__)

MAX_MESSAGE_CHARS = 300
MAX_TRACEBACK_CHARS = 4_000
"""Of its end, which says what was raised, and where."""


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """One question's input to a sampler. `video` is lazy; nothing here holds pixels."""

    video: StoredVideoHandle
    query: str | None
    budget: int
    scenes: list[Scene] | None


@dataclass(frozen=True, slots=True)
class Fallback:
    """The sampler that was decided, and how it failed."""

    sampler_id: str
    kind: SamplerFailure
    message: str
    trace: str | None = field(default=None, repr=False)
    """Where the sampler raised: for logs alone, because it shows code and paths."""


@dataclass(frozen=True, slots=True)
class CheckedSelection:
    """What one sampler chose, checked; picklable."""

    indices: list[int]
    note: str | None = None
    """Why these frames, where the sampler says so."""
    cost: ModelCost = NO_COST
    select_s: float = 0.0
    """Of the call of the sampler itself, without the wait for a thread or process."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Frame indices, strictly increasing, and the id of the sampler that chose them."""

    indices: list[int]
    sampler_id: str
    fallback: Fallback | None
    note: str | None = None
    cost: ModelCost = NO_COST


class SelectionFailedError(Exception):
    """A sampler gave no valid selection; `kind` is what the failure is counted under.

    `trace` is the formatted traceback where the sampler raised, `select_s` how long the sampler was
    at it; None where its process took that with it, or it was never called.
    """

    def __init__(
        self,
        kind: SamplerFailure,
        message: str,
        cost: ModelCost = NO_COST,
        trace: str | None = None,
        select_s: float | None = None,
    ) -> None:
        super().__init__(kind, message, cost, trace, select_s)  # all, so that it crosses processes
        self.kind = kind
        self.message = message[:MAX_MESSAGE_CHARS]
        self.cost = cost
        self.trace = trace and trace[-MAX_TRACEBACK_CHARS:]
        self.select_s = select_s


def _no_cost() -> ModelCost:
    return NO_COST


def run_checked(
    sampler: Sampler, request: SelectionRequest, cost: Callable[[], ModelCost] = _no_cost
) -> CheckedSelection:
    """What the sampler returned, checked. Raises `SelectionFailedError` and nothing else.

    `cost` tells, at the end, what its scorer has counted.

    Runs in a selection thread or process. Foreign exceptions end here: they may not unpickle in
    the gateway, and a `SystemExit` would end it.
    """
    with foreign_code(cost):
        started = perf_counter()
        noted = noted_selection(
            sampler, request.video, request.query, request.budget, request.scenes
        )
        select_s = perf_counter() - started
        indices = check_selection(
            noted.indices, request.video, request.budget, fills_budget=sampler.fills_budget
        )
        return CheckedSelection(indices, _checked_note(noted.note), cost(), select_s)


@contextmanager
def foreign_code(cost: Callable[[], ModelCost] = _no_cost) -> Iterator[None]:
    """Whatever the block raises becomes a `SelectionFailedError`, with its traceback as a text."""
    started = perf_counter()

    def failed(kind: SamplerFailure, message: str, trace: str | None = None) -> Exception:
        return SelectionFailedError(kind, message, cost(), trace, perf_counter() - started)

    try:
        yield
    except FeaturesMissingError as exc:
        raise failed(SamplerFailure.DEPENDENCY, str(exc)) from None
    except ContractViolationError as exc:
        raise failed(SamplerFailure.CONTRACT, str(exc)) from None
    except BaseException as exc:  # noqa: BLE001 - a sampler is foreign code and may raise anything
        trace = "".join(traceback.format_exception(exc))
        message = f"{type(exc).__name__}: {exc}"
        raise failed(SamplerFailure.RAISED, message, trace) from None


def _checked_note(note: object) -> str | None:
    if note is not None and not isinstance(note, str):
        raise ContractViolationError("a note is a text")
    return note and note[:MAX_MESSAGE_CHARS]


RunSampler = Callable[[str, SelectionRequest, float], Awaitable[CheckedSelection]]
"""Runs one sampler by `run_checked`, in a thread or a killable process, within seconds; raises what
that raises, or `TimeoutError`."""


@dataclass(frozen=True, slots=True)
class SelectionDeadlines:
    """Seconds."""

    usual_s: float
    model_s: float
    """Of samplers that ask a model."""


class FrameSelector:
    """Runs the decided sampler under its deadline and checks what it returns."""

    def __init__(
        self,
        table: SamplerTable,
        run_sampler: RunSampler,
        breaker: SamplerBreaker,
        metrics: Metrics,
        deadlines: SelectionDeadlines,
    ) -> None:
        self._table = table
        self._run_sampler = run_sampler
        self._breaker = breaker
        self._metrics = metrics
        self._deadlines = deadlines

    async def select_frames(self, sampler_id: str, request: SelectionRequest) -> Selection:
        """Frame indices by `sampler_id`, or by `uniform` when that sampler fails. Never raises."""
        started = perf_counter()
        try:
            chosen = await self.select_or_raise(sampler_id, request)
        except SelectionFailedError as failure:
            note_model_cost(self._metrics, failure.cost)
            fallback = Fallback(sampler_id, failure.kind, failure.message, failure.trace)
            return replace(self._baseline_selection(fallback, request), cost=failure.cost)
        self._metrics.sampler_selected(sampler_id, perf_counter() - started)
        note_model_cost(self._metrics, chosen.cost)
        return Selection(chosen.indices, sampler_id, None, chosen.note, chosen.cost)

    async def select_or_raise(self, sampler_id: str, request: SelectionRequest) -> CheckedSelection:
        """What this sampler chooses within its deadline; nothing stands in, nothing is counted.

        Raises `SelectionFailedError`.
        """
        if sampler_id not in self._table.ids:
            reason = self._table.why_unusable(sampler_id)
            message = f"no sampler {sampler_id!r}" + (f": {reason}" if reason else "")
            raise SelectionFailedError(SamplerFailure.UNKNOWN, message)
        if self._breaker.is_open(sampler_id):
            raise SelectionFailedError(
                SamplerFailure.BREAKER_OPEN, "it overran its deadline too often; it rests a while"
            )
        asks_model = self._table.uses_scorer(sampler_id)
        deadline_s = self._deadlines.model_s if asks_model else self._deadlines.usual_s
        try:
            chosen = await self._run_sampler(sampler_id, request, deadline_s)
        except TimeoutError as exc:
            self._breaker.record_overrun(sampler_id)
            message = f"no selection within {deadline_s:g} s"
            raise SelectionFailedError(
                SamplerFailure.DEADLINE, message, select_s=deadline_s
            ) from exc
        self._breaker.record_success(sampler_id)
        return chosen

    def _baseline_selection(self, fallback: Fallback, request: SelectionRequest) -> Selection:
        self._metrics.sampler_failed(fallback.sampler_id, fallback.kind)
        self._metrics.sampler_fell_back(fallback.sampler_id)
        log_event(
            logger,
            Event.SAMPLER_FAILED,
            level=logging.WARNING,
            exc_info=fallback.trace,
            sampler=fallback.sampler_id,
            kind=str(fallback.kind),
            error=fallback.message,
        )
        baseline = self._table.baseline
        started = perf_counter()
        indices = baseline.select(request.video, request.query, request.budget, request.scenes)
        self._metrics.sampler_selected(baseline.id, perf_counter() - started)
        return Selection(indices, baseline.id, fallback)


def note_model_cost(metrics: Metrics, cost: ModelCost) -> None:
    """Counts what a selection asked of the scoring model; nothing where it has none."""
    if cost.model_id is None:
        return
    metrics.scorer_asked(calls=cost.calls, retries=cost.retried_calls)
    metrics.scorer_used_tokens(input_tokens=cost.input_tokens, output_tokens=cost.output_tokens)
    metrics.scorer_waited_for(cost.seconds)
    metrics.scorer_given_up(openings=cost.breaker_openings, refusals=cost.breaker_refusals)
    metrics.cache_looked_up(Cache.MODEL_SCORES, hit=True, count=cost.cached_scores)
    metrics.cache_looked_up(Cache.MODEL_SCORES, hit=False, count=cost.missed_scores)
