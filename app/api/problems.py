"""Every error becomes an RFC 9457 problem document here, and nowhere else.

`app/errors.py` says what each error means; this file gives it the HTTP form. An exception that is
not in that tree is a defect: the caller learns the trace id, the log has the traceback.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.body_limit import BodyLimitMiddleware, BodyLimits
from app.errors import (
    FramegateError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    RequestError,
    RequestTimeoutError,
    RequestTooLargeError,
)
from observability.logs import log_event
from observability.names import Event
from observability.stages import current_trace_id

PROBLEM_MEDIA_TYPE = "application/problem+json"
MAX_BODY_BYTES = 1_048_576
MAX_BODY_S = 30.0
DRAIN_BYTES = 16 * 1024 * 1024
DRAIN_S = 2.0

logger = logging.getLogger(__name__)


class FieldError(BaseModel):
    """One field of the request that is wrong."""

    field: str = Field(description="Where: `body.question`, `query.limit`, `path.video_id`.")
    message: str


class ProblemDocument(BaseModel):
    """RFC 9457. Clients switch on `type`; the texts may change."""

    type: str = Field(examples=["urn:framegate:problem:video-not-found"])
    title: str = Field(description="The kind of problem, the same for every occurrence.")
    status: int
    detail: str = Field(description="What happened to this request.")
    action: str = Field(description="What the caller can do next.")
    instance: str = Field(description="Path of the request.")
    trace_id: str = Field(description="Finds this request in traces and logs.")
    errors: list[FieldError] | None = Field(
        None, description="Only with `invalid-request`: each wrong field."
    )
    reasons: list[str] | None = Field(
        None, description="Only with `rollout-refused`: each thing in the way, and the way on."
    )


class ProblemResponse(JSONResponse):
    media_type = PROBLEM_MEDIA_TYPE


class UnreadBodyProblemResponse(ProblemResponse):
    """Refuses an upload that is still being sent.

    Closing a socket with unread bytes in it resets the connection, and a client that is busy
    sending may then never see the refusal: so read on for a moment, and throw away.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers["Connection"] = "close"

        async def send_then_drain(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            await send({**message, "more_body": True})
            await _drain(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await super().__call__(scope, receive, send_then_drain)


async def _drain(receive: Receive) -> None:
    num_bytes = 0
    try:
        async with asyncio.timeout(DRAIN_S):
            while num_bytes < DRAIN_BYTES:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                num_bytes += len(message.get("body", b""))
    except TimeoutError:
        return


def problem_members(error: FramegateError, *, instance: str) -> dict[str, Any]:
    """The problem document of an error, as the body of a reply or inside another document."""
    return {**error.problem(), "instance": instance, "trace_id": current_trace_id()}


def problem_response(
    error: FramegateError, request: Request, *, errors: Sequence[FieldError] = ()
) -> ProblemResponse:
    """`Retry-After` is set from the error; 5xx are logged."""
    members = problem_members(error, instance=error.instance or request.url.path)
    if errors:
        members["errors"] = [item.model_dump() for item in errors]
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if error.status >= 500:
        _log(error, request, members)
    is_body_unread = getattr(request.state, "is_body_unread", False)
    kind = UnreadBodyProblemResponse if is_body_unread else ProblemResponse
    return kind(members, status_code=error.status, headers=headers)


def install_problem_handlers(app: FastAPI) -> None:
    """Make every error reply of `app` a problem document."""
    app.exception_handler(FramegateError)(_on_framegate_error)
    app.exception_handler(RequestValidationError)(_on_validation_error)
    app.exception_handler(HTTPException)(_on_http_exception)
    limits = BodyLimits(MAX_BODY_BYTES, MAX_BODY_S)
    app.add_middleware(BodyLimitMiddleware, limits=limits)
    app.add_middleware(UnexpectedErrorMiddleware)


def documented_problems(*errors: type[FramegateError]) -> dict[int | str, dict[str, Any]]:
    """The `responses` argument of a route: which problems it can answer, by status, for OpenAPI."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for error in errors:
        entry = by_status.setdefault(
            error.status,
            {
                "model": ProblemDocument,
                "description": "",
                "content": {PROBLEM_MEDIA_TYPE: {"examples": {}}},
            },
        )
        entry["description"] += f"{' / ' if entry['description'] else ''}`{error.code}`"
        example = {
            **error().problem(),
            "instance": "/v1/videos",
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        }
        entry["content"][PROBLEM_MEDIA_TYPE]["examples"][error.code] = {"value": example}
    return by_status


class UnexpectedErrorMiddleware:
    """The outermost handler: an exception outside the error tree is logged once, with its trace.

    Starlette's own last handler re-raises after replying, which logs the same traceback again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except ClientDisconnect:
            return
        except Exception as exc:
            if has_started:  # Too late for a document: the server cuts the connection, and logs.
                raise
            request = Request(scope)
            members = problem_members(FramegateError(), instance=request.url.path)
            _log(FramegateError("unexpected error"), request, members, exc)
            await ProblemResponse(members, status_code=500)(scope, receive, send)


async def _on_framegate_error(request: Request, error: FramegateError) -> ProblemResponse:
    return problem_response(error, request)


async def _on_validation_error(request: Request, error: RequestValidationError) -> ProblemResponse:
    fields = [_field_error(item, request) for item in error.errors()]
    detail = "; ".join(f"{item.field}: {item.message}" for item in fields[:3])
    return problem_response(InvalidRequestError(detail), request, errors=fields)


def _field_error(item: dict[str, Any], request: Request) -> FieldError:
    if item["type"] == "json_invalid":
        _, position = item["loc"]
        reason = item["ctx"]["error"]
        return FieldError(field="body", message=f"no valid JSON at character {position}: {reason}")
    media_type = request.headers.get("Content-Type", "")
    if item["loc"] == ("body",) and "json" not in media_type.lower():
        # What `curl -d` sends unless it is told otherwise.
        message = f"sent as {media_type or 'nothing'}: send `Content-Type: application/json`"
        return FieldError(field="body", message=message)
    return FieldError(field=".".join(map(str, item["loc"])), message=item["msg"])


async def _on_http_exception(request: Request, error: HTTPException) -> ProblemResponse:
    """What the router itself refuses: no such address, a wrong method, a body that is no JSON."""
    path = request.url.path
    if error.status_code == 404:
        return problem_response(NotFoundError(f"There is nothing at {path}."), request)
    if error.status_code == 405:
        refused = MethodNotAllowedError(f"{path} does not take {request.method}.")
        response = problem_response(refused, request)
        response.headers.update(error.headers or {})
        return response
    if error.status_code == 408:
        return problem_response(RequestTimeoutError(error.detail), request)
    if error.status_code == 413:
        return problem_response(RequestTooLargeError(error.detail), request)
    if error.status_code < 500:
        return problem_response(RequestError(error.detail), request)
    return problem_response(FramegateError(), request)


def _log(
    error: FramegateError,
    request: Request,
    members: dict[str, Any],
    unexpected: Exception | None = None,
) -> None:
    log_event(
        logger,
        Event.REQUEST_FAILED,
        error.detail,
        level=logging.WARNING if unexpected is None else logging.ERROR,
        exc_info=unexpected,
        problem=error.code,
        status=error.status,
        method=request.method,
        path=request.url.path,
        problem_trace_id=members["trace_id"],
    )
