"""Answers over HTTP: one JSON document, or server-sent events. No decisions here."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from app.answer_documents import AnswerDocument
from app.answer_events import AnswerEvent, Evidence
from app.answers import AnswerRunner
from app.api.answer_schemas import AskRequest
from app.api.client_left import ClientLeftError, run_while_connected
from app.api.operators import OperatorGate
from app.api.problems import ProblemDocument
from app.api.sse import sse_event
from app.errors import (
    FramegateError,
    InvalidRequestError,
    QuestionTooLongError,
    UnknownSamplerError,
)
from app.generate.contract import GenerationOptions, TextDelta
from app.index_job import IndexProgress
from app.question import Question
from app.stores.catalogue import Catalogue
from app.stores.rows import AnswerRow
from observability.stages import current_trace_id

EVENT_QUEUE_SIZE = 64
CLIENT_CLOSED_REQUEST = 499
DEFAULT_WAIT_S = 30.0

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemDocument, "description": text}
    for status, text in {
        403: "The sampler may be named by operators only.",
        404: "No such video.",
        409: "The video is still being indexed (Retry-After).",
        422: "The request or the video cannot be used; `type` says why.",
        429: "Too many answers are running (Retry-After).",
        503: "The language model or the encoder is away (Retry-After).",
    }.items()
}


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
    router = APIRouter(prefix="/v1/answers", tags=["answers"])

    @router.post(
        "",
        response_model=AnswerDocument,
        responses={**PROBLEMS, 200: {"content": {"text/event-stream": {}}}},
        summary="Answer a question about a video",
    )
    async def post_answer(body: AskRequest, request: Request) -> Response:
        question = _question(body, request, services)
        await asyncio.to_thread(
            services.catalogue.get_video, question.tenant, question.video_id
        )
        if body.stream:
            return await _streamed(question, services.runner)
        try:
            document = await run_while_connected(
                request, services.runner.run(question, _ignore_event)
            )
        except ClientLeftError:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return Response(document.model_dump_json(), media_type="application/json")

    @router.get(
        "/{answer_id}",
        responses={404: {"model": ProblemDocument}},
        summary="An earlier answer, with its evidence",
    )
    async def get_answer(answer_id: str) -> dict[str, Any]:
        row = await asyncio.to_thread(
            services.catalogue.get_answer, services.rules.tenant, answer_id
        )
        return _stored_document(row)

    return router


def _stored_document(row: AnswerRow) -> dict[str, Any]:
    if row.document is not None:
        return dict(row.document)
    return {
        "answer_id": row.answer_id,
        "video_id": row.video_id,
        "question": row.question,
        "state": str(row.state),
    }


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


async def _streamed(question: Question, runner: AnswerRunner) -> Response:
    """Errors before the first event are ordinary HTTP problems; later ones are `error` events."""
    events: asyncio.Queue[AnswerEvent] = asyncio.Queue(EVENT_QUEUE_SIZE)
    task = asyncio.create_task(runner.run(question, events.put))
    stream = _StreamedAnswer(question.answer_id, task, events)
    try:
        first = await stream.next_event()
    except BaseException:
        await stream.stop()
        raise
    return StreamingResponse(
        stream.lines(first),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


class _StreamedAnswer:
    """One running answer and the queue of its events."""

    def __init__(
        self,
        answer_id: str,
        task: asyncio.Task[AnswerDocument],
        events: asyncio.Queue[AnswerEvent],
    ) -> None:
        self._answer_id = answer_id
        self._task = task
        self._events = events

    async def next_event(self) -> AnswerEvent | None:
        """The next event; None when the answer is done. Raises what the answer raised."""
        if not self._events.empty():
            return self._events.get_nowait()
        getter = asyncio.ensure_future(self._events.get())
        try:
            await asyncio.wait({getter, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if getter.done():
                return getter.result()
        finally:
            getter.cancel()
        self._task.result()
        return None

    async def lines(self, event: AnswerEvent | None) -> AsyncIterator[bytes]:
        try:
            while event is not None:
                yield _event_bytes(event)
                event = await self.next_event()
            yield sse_event("done", self._task.result().model_dump(mode="json"))
        except FramegateError as exc:
            problem = exc.problem() | {
                "answer_id": self._answer_id,
                "trace_id": current_trace_id(),
            }
            yield sse_event("error", problem)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """The client left, or all is said: nothing goes on running."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _event_bytes(event: AnswerEvent) -> bytes:
    if isinstance(event, IndexProgress):
        return sse_event("progress", {"status": str(event.status), "progress": event.fraction})
    if isinstance(event, Evidence):
        return sse_event("evidence", event.document.model_dump(mode="json"))
    if isinstance(event, TextDelta):
        return sse_event("token", {"text": event.text})
    return sse_event(
        "usage",
        {
            "input_tokens": event.input_tokens,
            "output_tokens": event.output_tokens,
            "finish_reason": event.finish_reason,
        },
    )
