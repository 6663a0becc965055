"""Continues the caller's trace, or begins one, and records stages; pure ASGI, so streams pass."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from observability.names import Span
from observability.setup import Telemetry
from observability.stages import extracted_context, span

TRACED_PREFIX = "/v1/"
"""Probes and scrapes come every few seconds and would bury the rest."""


class TelemetryMiddleware:
    """One trace a call: its answer, its problem document and its log lines show the same id."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            with self._telemetry.activated():
                await self._app(scope, receive, send)
            return
        with (
            self._telemetry.activated(),
            extracted_context(Headers(scope=scope)),
            _request_span(scope),
        ):
            await self._app(scope, receive, send)


def _request_span(scope: Scope) -> AbstractContextManager[object]:
    if not scope["path"].startswith(TRACED_PREFIX):
        return nullcontext()
    attributes = {"http.request.method": scope["method"], "url.path": scope["path"]}
    return span(Span.REQUEST, **attributes)
