"""Runs one question and keeps its record: running, then done, failed or cancelled. Committed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

from app.answer_documents import AnswerDocument, EvidenceDocument, UsageDocument
from app.answer_events import AnswerEvent, Emit, Evidence, FramesSelected
from app.answer_load import AnswerLoad
from app.ended_answer import EndedAnswer, OnEnded
from app.errors import BusyError, FramegateError, LlmUnavailableError, UnavailableError
from app.evidence import EvidenceParts
from app.generate.contract import TextDelta, Usage
from app.pipeline import answer_question
from app.question import Question
from app.stage_clock import StageClock
from app.stages import Stages
from app.stores.catalogue import Catalogue
from app.stores.rows import AnswerRow, AnswerState
from observability.logs import log_event
from observability.metrics import Metrics
from observability.names import Event, Outcome, Span
from observability.stages import current_trace_id, span

logger = logging.getLogger(__name__)

OUTCOMES = {
    AnswerState.DONE: Outcome.OK,
    AnswerState.FAILED: Outcome.ERROR,
    AnswerState.CANCELLED: Outcome.CANCELLED,
}


@dataclass(slots=True)
class _Record:
    """What has been emitted so far, and how it ended: failed, unless something else is noted."""

    state: AnswerState = AnswerState.FAILED
    text: list[str] = field(default_factory=list)
    evidence: EvidenceDocument | None = None
    selected: FramesSelected | None = None
    parts: EvidenceParts | None = None
    usage: Usage | None = None
    problem: dict[str, object] | None = None

    def note(self, event: AnswerEvent | FramesSelected) -> None:
        if isinstance(event, FramesSelected):
            self.selected = event
        elif isinstance(event, Evidence):
            self.evidence = event.document
            self.parts = event.parts
        elif isinstance(event, TextDelta):
            self.text.append(event.text)
        elif isinstance(event, Usage):
            self.usage = event


class AnswerRunner:
    """Admits, runs and records answers. `on_ended` are told of each; they cannot harm it."""

    def __init__(
        self,
        stages: Stages,
        catalogue: Catalogue,
        metrics: Metrics,
        *,
        max_running: int,
        load: AnswerLoad | None = None,
        on_ended: tuple[OnEnded, ...] = (),
    ) -> None:
        self._stages = stages
        self._catalogue = catalogue
        self._metrics = metrics
        self._max_running = max_running
        self._load = load or AnswerLoad()
        self._on_ended = on_ended

    async def run(self, question: Question, emit: Emit) -> AnswerDocument:
        """The finished document, committed. Raises `FramegateError`, whose record is committed too.

        Cancelling it stops the generation and records the answer as cancelled.
        """
        if self._load.num_running >= self._max_running:
            raise BusyError(f"{self._load.num_running} answers are running; that is the bound.")
        with (
            self._load.seat() as seat,
            span(Span.ANSWER_QUESTION, answer_id=question.answer_id),
        ):
            return await self._run_recorded(question, emit, seat)

    async def _run_recorded(self, question: Question, emit: Emit, seat: int) -> AnswerDocument:
        clock, record = StageClock(), _Record()
        created = datetime.now(UTC)

        async def emit_and_note(event: AnswerEvent | FramesSelected) -> None:
            if isinstance(event, TextDelta) and not record.text:
                self._metrics.first_token_sent(clock.total_s)
                self._load.is_speaking(seat)
            record.note(event)
            if not isinstance(event, FramesSelected):
                # Noted in the catalogue before the caller hears anything of it.
                await asyncio.shield(put)
                await emit(event)

        put = asyncio.create_task(self._put(question))
        try:
            await answer_question(question, self._stages, clock, emit_and_note)
            record.state = AnswerState.DONE
        except asyncio.CancelledError:
            record.state = AnswerState.CANCELLED
            raise
        except FramegateError as exc:
            exc.instance = answer_path(question.answer_id)
            record.problem = exc.problem()
            if isinstance(exc, LlmUnavailableError):
                self._metrics.llm_unavailable()
            raise
        finally:
            document = _document(question, record, clock, created)
            self._count(document, record, clock)
            self._tell(_ended(question, record, document, created))
            # Shielded: a client that left must still find its answer recorded as cancelled.
            await asyncio.shield(self._finish(put, document))
        return document

    async def _put(self, question: Question) -> None:
        await asyncio.to_thread(
            self._catalogue.put_answer,
            question.answer_id,
            question.tenant,
            question.video_id,
            question.text,
        )

    async def _finish(self, put: asyncio.Task[None], document: AnswerDocument) -> None:
        await put
        await asyncio.to_thread(
            self._catalogue.finish_answer,
            document.answer_id,
            document.state,
            document.model_dump(mode="json"),
        )

    def _tell(self, ended: EndedAnswer) -> None:
        # As callbacks of their own: an exception ends there, in the loop's log.
        for on_ended in self._on_ended:
            asyncio.get_running_loop().call_soon(on_ended, ended)

    def _count(self, document: AnswerDocument, record: _Record, clock: StageClock) -> None:
        self._metrics.answer_finished(OUTCOMES[record.state], clock.total_s)
        if record.usage is not None:
            self._metrics.llm_used_tokens(
                input_tokens=record.usage.input_tokens, output_tokens=record.usage.output_tokens
            )
        if record.evidence is not None and record.state is AnswerState.CANCELLED:
            self._metrics.generation_cancelled()
        log_event(
            logger,
            Event.ANSWER_FINISHED,
            answer_id=document.answer_id,
            state=str(document.state),
            seconds=document.timings_s,
            problem=record.problem and record.problem["type"],
        )


def _ended(
    question: Question, record: _Record, document: AnswerDocument, created: datetime
) -> EndedAnswer:
    problem, selected = document.problem, record.selected
    return EndedAnswer(
        question=question,
        state=record.state,
        created=created,
        selected=None if selected is None else selected.parts,
        facts=None if selected is None else selected.facts,
        parts=record.parts,
        text=document.answer,
        usage=record.usage,
        problem_type=None if problem is None else str(problem["type"]),
        seconds=document.timings_s,
    )


def answer_path(answer_id: str) -> str:
    """Where an answer can be read again."""
    return f"/v1/answers/{answer_id}"


def _document(
    question: Question, record: _Record, clock: StageClock, created: datetime
) -> AnswerDocument:
    problem = record.problem
    if record.state is AnswerState.FAILED and problem is None:
        problem = FramegateError().problem()
    usage = record.usage
    return AnswerDocument(
        answer_id=question.answer_id,
        video_id=question.video_id,
        question=question.text,
        state=record.state,
        answer="".join(record.text).strip(),
        created=_iso(created),
        evidence=record.evidence,
        usage=None
        if usage is None
        else UsageDocument(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            finish_reason=usage.finish_reason,
        ),
        timings_s=clock.seconds,
        problem=problem,
        trace_id=current_trace_id(),
    )


def unfinished_document(row: AnswerRow) -> AnswerDocument:
    """Of an answer that runs, or that the end of a former process interrupted."""
    problem = UnavailableError("The service stopped while this answer was running.").problem()
    return AnswerDocument(
        answer_id=row.answer_id,
        video_id=row.video_id,
        question=row.question,
        state=row.state,
        answer="",
        created=_iso(datetime.fromtimestamp(row.created_s, UTC)),
        evidence=None,
        usage=None,
        timings_s={},
        problem=problem if row.state is AnswerState.FAILED else None,
        trace_id=None,
    )


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
