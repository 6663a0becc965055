"""Runs one question and keeps its record: running, then done, failed or cancelled. Committed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from app.answer_documents import AnswerDocument, EvidenceDocument, UsageDocument
from app.answer_events import AnswerEvent, Emit, Evidence
from app.errors import BusyError, FramegateError, LlmUnavailableError
from app.generate.contract import TextDelta, Usage
from app.pipeline import answer_question
from app.question import Question
from app.stage_clock import StageClock
from app.stages import Stages
from app.stores.catalogue import Catalogue
from app.stores.rows import AnswerState
from observability.logs import log_event
from observability.metrics import Metrics
from observability.names import Event, Outcome, Span
from observability.stages import current_trace_id, span

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Record:
    """What has been emitted so far."""

    text: list[str] = field(default_factory=list)
    evidence: EvidenceDocument | None = None
    usage: Usage | None = None
    problem: dict[str, object] | None = None

    def note(self, event: AnswerEvent) -> None:
        if isinstance(event, Evidence):
            self.evidence = event.document
        elif isinstance(event, TextDelta):
            self.text.append(event.text)
        elif isinstance(event, Usage):
            self.usage = event


class AnswerRunner:
    """Admits, runs and records answers."""

    def __init__(
        self, stages: Stages, catalogue: Catalogue, metrics: Metrics, *, max_running: int
    ) -> None:
        self._stages = stages
        self._catalogue = catalogue
        self._metrics = metrics
        self._max_running = max_running
        self._num_running = 0

    async def run(self, question: Question, emit: Emit) -> AnswerDocument:
        """The finished document, committed. Raises `FramegateError`, whose record is committed too.

        Cancelling it stops the generation and records the answer as cancelled.
        """
        if self._num_running >= self._max_running:
            raise BusyError(f"{self._num_running} answers are running; that is the bound.")
        self._num_running += 1
        try:
            with span(Span.ANSWER_QUESTION, answer_id=question.answer_id):
                return await self._run_recorded(question, emit)
        finally:
            self._num_running -= 1

    async def _run_recorded(self, question: Question, emit: Emit) -> AnswerDocument:
        await asyncio.to_thread(
            self._catalogue.put_answer,
            question.answer_id,
            question.tenant,
            question.video_id,
            question.text,
        )
        clock, record = StageClock(), _Record()
        created = datetime.now(UTC)

        async def emit_and_note(event: AnswerEvent) -> None:
            if isinstance(event, TextDelta) and not record.text:
                self._metrics.first_token_sent(clock.total_s)
            record.note(event)
            await emit(event)

        state: Literal["done", "failed", "cancelled"] = "cancelled"
        try:
            await answer_question(question, self._stages, clock, emit_and_note)
            state = "done"
        except FramegateError as exc:
            state = "failed"
            record.problem = exc.problem()
            if isinstance(exc, LlmUnavailableError):
                self._metrics.llm_unavailable()
            raise
        finally:
            document = _document(question, record, clock, state, created)
            # Shielded: a client that left must still find its answer recorded as cancelled.
            await asyncio.shield(asyncio.to_thread(self._finish, document))
            self._count(document, record, clock)
        return document

    def _finish(self, document: AnswerDocument) -> None:
        self._catalogue.finish_answer(
            document.answer_id, AnswerState(document.state), document.model_dump(mode="json")
        )

    def _count(self, document: AnswerDocument, record: _Record, clock: StageClock) -> None:
        outcome = {"done": Outcome.OK, "failed": Outcome.ERROR}.get(
            document.state, Outcome.CANCELLED
        )
        self._metrics.answer_finished(outcome, clock.total_s)
        if record.usage is not None:
            self._metrics.llm_used_tokens(
                input_tokens=record.usage.input_tokens, output_tokens=record.usage.output_tokens
            )
        if record.evidence is not None and document.state == "cancelled":
            self._metrics.generation_cancelled()
        log_event(
            logger,
            Event.ANSWER_FINISHED,
            answer_id=document.answer_id,
            state=document.state,
            seconds=document.timings_s,
            problem=record.problem and record.problem["type"],
        )


def _document(
    question: Question,
    record: _Record,
    clock: StageClock,
    state: Literal["done", "failed", "cancelled"],
    created: datetime,
) -> AnswerDocument:
    return AnswerDocument(
        answer_id=question.answer_id,
        video_id=question.video_id,
        question=question.text,
        state=state,
        answer="".join(record.text).strip(),
        created=created.isoformat(),
        evidence=record.evidence,
        usage=record.usage
        and UsageDocument(
            input_tokens=record.usage.input_tokens,
            output_tokens=record.usage.output_tokens,
            finish_reason=record.usage.finish_reason,
        ),
        timings_s=clock.seconds,
        problem=record.problem,
        trace_id=current_trace_id(),
    )
