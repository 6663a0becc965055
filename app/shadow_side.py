"""The shadow beside the answers: told of each ended answer, it compares some of them.

It begins when the answer is over: the user has everything, the control's cost is known, and nothing
of it can reach the answer any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from app.answer_load import AnswerLoad
from app.ended_answer import EndedAnswer
from app.evidence import EvidenceParts
from app.question import Question
from app.reduce.contract import Reducer
from app.shadow_answers import AnswererParts, AnswerJob, ShadowAnswerer
from app.shadow_record import (
    ComparedAnswer,
    OrderRules,
    RecordRules,
    has_query_vector,
    order_of,
    record_of,
)
from app.shadow_tenants import TenantCounts
from app.shadow_vectors import ShadowVectors
from app.stores.rows import AnswerState
from observability.metrics import Metrics
from observability.shadow_names import ShadowAnswer, ShadowShed
from shadow.order import WorkResult
from shadow.policy import (
    PlannedComparison,
    ShadowFlags,
    ShadowLoad,
    ShadowRules,
    plan_comparison,
)
from shadow.records import ComparisonRecord
from shadow.runner import ShadowRunner
from shadow.sinks import Sink

MAX_VECTORS_WAITED_FOR = 64


@dataclass(frozen=True, slots=True)
class ShadowParts:
    """What the shadow is made of; `app/shadow_build.py` puts it together."""

    rules: ShadowRules
    orders: OrderRules
    reducer: Reducer
    vectors: ShadowVectors
    load: AnswerLoad
    runner: ShadowRunner
    sink: Sink
    metrics: Metrics
    tenants: TenantCounts
    hash_user: Callable[[Question], str | None]
    answerer: AnswererParts


class ShadowSide:
    """`answer_ended` returns at once; the rest happens in tasks, a thread and a process."""

    def __init__(self, parts: ShadowParts) -> None:
        self._parts = parts
        self._answerer = ShadowAnswerer(parts.answerer, self._answer_made)
        self._fetches: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()
        self._is_closing = False

    @property
    def load(self) -> AnswerLoad:
        """The answers that it makes way for."""
        return self._parts.load

    @property
    def process_id(self) -> int | None:
        """Of the process that selects, while there is one."""
        return self._parts.runner.pid

    def answer_ended(self, ended: EndedAnswer) -> None:
        """An `OnEnded`: compare this answer, if the flags ask for it and the load allows it."""
        if ended.parts is None or ended.facts is None:
            return
        plan = self._plan(ended.parts)
        if isinstance(plan, ShadowShed):
            self._parts.metrics.shadow_shed(plan)
        elif plan is not None:
            self._parts.tenants.count(ended.question.tenant)
            self._begin(ComparedAnswer(ended, ended.parts, ended.facts, plan, None))

    async def aclose(self) -> None:
        """End everything that runs; what was compared reaches the sinks, the rest is shed."""
        self._is_closing = True
        for fetch in self._fetches:
            fetch.cancel()
        await asyncio.gather(*self._fetches, return_exceptions=True)
        await self._answerer.aclose()
        await asyncio.to_thread(self._parts.runner.close)
        # Results of the last moment are handed over by callbacks, which run before this does.
        await asyncio.sleep(0)
        await asyncio.gather(*self._writes)
        await asyncio.to_thread(self._parts.sink.close)

    def _plan(self, parts: EvidenceParts) -> PlannedComparison | ShadowShed | None:
        flags = ShadowFlags(
            control_id=parts.decision.sampler_id,
            shadow_id=parts.decision.shadow_sampler_id,
            rate=parts.decision.shadow_rate,
            answer_rate=parts.decision.shadow_answer_rate,
        )
        load = ShadowLoad(
            running_answers=self._parts.load.num_running,
            tenant_compared=self._parts.tenants.this_minute(parts.question.tenant),
        )
        return plan_comparison(parts.question.answer_id, flags, self._parts.rules, load)

    def _begin(self, answer: ComparedAnswer) -> None:
        if has_query_vector(answer.parts):
            self._offer(answer)
        elif self._is_closing or len(self._fetches) >= MAX_VECTORS_WAITED_FOR:
            self._shed(ShadowShed.CLOSING if self._is_closing else ShadowShed.QUEUE_FULL)
        else:
            fetch = asyncio.create_task(self._fetch_and_offer(answer), name="vector for shadow")
            self._fetches.add(fetch)
            fetch.add_done_callback(self._fetches.discard)

    async def _fetch_and_offer(self, answer: ComparedAnswer) -> None:
        found = await self._parts.vectors.get(answer.parts.question.text)
        self._offer(replace(answer, found=found))

    def _offer(self, answer: ComparedAnswer) -> None:
        order = order_of(answer, self._parts.orders)
        done = partial(self._done, answer, asyncio.get_running_loop())
        refusal = self._parts.runner.offer(order, done)
        if refusal is not None:
            self._shed(refusal)

    def _shed(self, reason: ShadowShed) -> None:
        self._parts.metrics.shadow_shed(reason)

    def _done(
        self,
        answer: ComparedAnswer,
        loop: asyncio.AbstractEventLoop,
        outcome: WorkResult | ShadowShed,
    ) -> None:
        """In the runner's thread."""
        if isinstance(outcome, ShadowShed):
            self._shed(outcome)
            return
        record = self._record(answer, outcome)
        if self._is_to_be_answered(answer, record):
            job = AnswerJob(record, answer.parts.question, answer.parts.video, answer.ended.text)
            loop.call_soon_threadsafe(self._offer_job, job)
        else:
            self._parts.sink.put(record)

    def _record(self, answer: ComparedAnswer, result: WorkResult) -> ComparisonRecord:
        chosen = () if result.shadow is None else result.shadow.indices
        rules = RecordRules(
            tolerance_s=self._parts.orders.tolerance_s,
            user_hash=self._parts.hash_user(answer.parts.question),
            shadow_tokens=self._num_tokens(answer, len(chosen)) if chosen else None,
        )
        return record_of(answer, result, rules)

    def _num_tokens(self, answer: ComparedAnswer, num_frames: int) -> int:
        parts = answer.parts
        per_picture = parts.reduced.num_tokens_before // len(parts.selection.indices)
        return self._parts.reducer.num_tokens(num_frames, per_picture)

    @staticmethod
    def _is_to_be_answered(answer: ComparedAnswer, record: ComparisonRecord) -> bool:
        is_complete = answer.ended.state is AnswerState.DONE and record.overlap_exact is not None
        return answer.plan.is_answered and is_complete

    def _offer_job(self, job: AnswerJob) -> None:
        if self._is_closing:
            self._answer_made(job.record, ShadowAnswer.SHED)
        else:
            self._answerer.offer(job)

    def _answer_made(self, record: ComparisonRecord, outcome: ShadowAnswer) -> None:
        """On the event loop, which must not wait for a sink."""
        self._parts.metrics.shadow_answer_ended(outcome)
        write = asyncio.create_task(asyncio.to_thread(self._parts.sink.put, record))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
