"""Answers over HTTP: one JSON document, or server-sent events. No decisions here."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.answer_documents import AnswerDocument
from app.answer_events import AnswerEvent, Evidence
from app.answers import AnswerRunner, answer_path, unfinished_document
from app.api.answer_schemas import AskRequest
from app.api.client_left import ClientLeftError, run_while_connected
from app.api.operators import OperatorGate
from app.api.problems import documented_problems, problem_members
from app.api.sse import StreamEvent, sse_event
from app.errors import (
    AnswerNotFoundError,
    BusyError,
    EncoderUnavailableError,
    FramegateError,
    IndexFailedError,
    InvalidRequestError,
    LlmUnavailableError,
    OperatorKeyError,
    QuestionTooLongError,
    UnknownSamplerError,
    UnreadableVideoError,
    VideoNotFoundError,
    VideoNotReadyError,
)
from app.generate.contract import GenerationOptions, TextDelta
from app.index_job import IndexProgress
from app.question import Question
from app.stores.catalogue import Catalogue

logger = logging.getLogger(__name__)

StreamedEvent: TypeAlias = AnswerEvent | AnswerDocument | BaseException

ANSWERS = "/v1/answers"
EVENT_QUEUE_SIZE = 64
CLIENT_CLOSED_REQUEST = 499
DEFAULT_WAIT_S = 30.0

PROBLEMS = documented_problems(
    OperatorKeyError,
    VideoNotFoundError,
    VideoNotReadyError,
    InvalidRequestError,
    QuestionTooLongError,
    UnknownSamplerError,
    UnreadableVideoError,
    BusyError,
    LlmUnavailableError,
    EncoderUnavailableError,
    IndexFailedError,
)


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """Defaults and bounds of requests."""

    tenant: str
    max_question_chars: int
    max_tokens_default: int
    max_tokens_limit: int
    max_wait_s: float


@dataclass(frozen=True, slots=True)
class AnswerServices:
    runner: AnswerRunner
    catalogue: Catalogue
    gate: OperatorGate
    sampler_ids: frozenset[str]
    rules: AnswerRules


def answers_router(services: AnswerServices) -> APIRouter:
    router = APIRouter(prefix=ANSWERS, tags=["answers"])

    @router.post(
        "",
        response_model=AnswerDocument,
        responses={**PROBLEMS, 200: {"content": {"text/event-stream": {}}}},
        summary="Answer a question about a video",
    )
    async def post_answer(body: AskRequest, request: Request) -> Response:
        question = _question(body, request, services)
        await asyncio.to_thread(services.catalogue.get_video, question.tenant, question.video_id)
        reply = _streamed if body.stream else _whole
        try:
            return await reply(question, request, services.runner)
        except ClientLeftError:
            return Response(status_code=CLIENT_CLOSED_REQUEST)

    @router.get(
        "/{answer_id}",
        responses=documented_problems(AnswerNotFoundError),
        summary="An earlier answer, with its evidence",
    )
    async def get_answer(answer_id: str) -> AnswerDocument:
        row = await asyncio.to_thread(
            services.catalogue.get_answer, services.rules.tenant, answer_id
        )
        if row.document is None:
            return unfinished_document(row)
        return AnswerDocument.model_validate(row.document)

    return router


async def _ignore_event(_: AnswerEvent) -> None:
    """A JSON reply holds everything at its end."""


def _question(body: AskRequest, request: Request, services: AnswerServices) -> Question:
    """Validate against the deployment's bounds. Raises `RequestError`."""
    rules = services.rules
    if len(body.question) > rules.max_question_chars:
        raise QuestionTooLongError(
            f"{len(body.question)} characters; at most {rules.max_question_chars} are read."
        )
    if not body.question.strip():
        raise InvalidRequestError("`question` is blank.")
    max_tokens = rules.max_tokens_default if body.max_tokens is None else body.max_tokens
    if max_tokens > rules.max_tokens_limit:
        raise InvalidRequestError(f"`max_tokens` is above {rules.max_tokens_limit}.")
    wait_s = DEFAULT_WAIT_S if body.wait_s is None else body.wait_s
    if wait_s > rules.max_wait_s:
        raise InvalidRequestError(f"`wait_s` is above {rules.max_wait_s:g}.")
    if body.sampler is not None:
        services.gate(request)
        if body.sampler not in services.sampler_ids:
            raise UnknownSamplerError(f"There is no sampler {body.sampler!r}.")
    return Question(
        answer_id=uuid.uuid4().hex,
        tenant=rules.tenant,
        video_id=body.video_id,
        text=body.question,
        user_id=body.user_id,
        requested_frames=body.budget,
        sampler_override=body.sampler,
        wait_s=wait_s,
        options=GenerationOptions(max_tokens, body.temperature, body.seed),
    )


async def _whole(question: Question, request: Request, runner: AnswerRunner) -> Response:
    document = await run_while_connected(request, runner.run(question, _ignore_event))
    headers = {"Content-Location": answer_path(question.answer_id)}
    return Response(document.model_dump_json(), media_type="application/json", headers=headers)


async def _streamed(question: Question, request: Request, runner: AnswerRunner) -> Response:
    """Errors before the first event are ordinary HTTP problems; later ones are `error` events."""
    answer = _RunningAnswer(question, runner)
    try:
        first = await run_while_connected(request, answer.first_event())
    except BaseException:
        await answer.stop()
        raise
    return _AnswerStream(answer, first)


class _RunningAnswer:
    """A task, and the queue of its events; the last one is how it ended."""

    def __init__(self, question: Question, runner: AnswerRunner) -> None:
        self.answer_id = question.answer_id
        self._events: asyncio.Queue[StreamedEvent] = asyncio.Queue(EVENT_QUEUE_SIZE)
        self._task = asyncio.create_task(self._run(question, runner))

    async def _run(self, question: Question, runner: AnswerRunner) -> None:
        # `gather` hands over any exception without a broad `except`.
        running = runner.run(question, self._events.put)
        [outcome] = await asyncio.gather(running, return_exceptions=True)
        await self._events.put(outcome)

    async def first_event(self) -> StreamedEvent:
        """Raises what ended the answer before it had anything to say."""
        event = await self._events.get()
        if isinstance(event, BaseException):
            raise event
        return event

    async def lines(self, event: StreamedEvent) -> AsyncIterator[bytes]:
        while not isinstance(event, AnswerDocument | BaseException):
            yield _event_bytes(event)
            event = await self._events.get()
        yield _end_bytes(event, self.answer_id)

    async def stop(self) -> None:
        """The client left, or all is said: nothing goes on running."""
        self._task.cancel()
        # Starlette ends a stream by a cancel scope, which would cut this wait short, too.
        with anyio.CancelScope(shield=True):
            await asyncio.wait({self._task})


class _AnswerStream(StreamingResponse):
    """Stops its answer however it ends, also when it was cancelled before the first byte."""

    def __init__(self, answer: _RunningAnswer, first: StreamedEvent) -> None:
        headers = {
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",  # nginx would hold the tokens back
            "Content-Location": answer_path(answer.answer_id),
        }
        super().__init__(answer.lines(first), media_type="text/event-stream", headers=headers)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.stop()


def _end_bytes(outcome: AnswerDocument | BaseException, answer_id: str) -> bytes:
    if isinstance(outcome, AnswerDocument):
        return sse_event(StreamEvent.DONE, outcome.model_dump(mode="json"))
    if not isinstance(outcome, FramegateError):
        logger.error("an answer ended by an error that nobody foresaw", exc_info=outcome)
        outcome = FramegateError()
    members = problem_members(outcome, instance=answer_path(answer_id))
    return sse_event(StreamEvent.ERROR, members)


def _event_bytes(event: AnswerEvent) -> bytes:
    if isinstance(event, IndexProgress):
        progress: dict[str, object] = {"status": str(event.status), "progress": event.fraction}
        return sse_event(StreamEvent.PROGRESS, progress)
    if isinstance(event, Evidence):
        return sse_event(StreamEvent.EVIDENCE, event.document.model_dump(mode="json"))
    if isinstance(event, TextDelta):
        return sse_event(StreamEvent.TOKEN, {"text": event.text})
    return sse_event(
        StreamEvent.USAGE,
        {
            "input_tokens": event.input_tokens,
            "output_tokens": event.output_tokens,
            "finish_reason": event.finish_reason,
        },
    )
