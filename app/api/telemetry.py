"""Continues the caller's trace and records stages; pure ASGI, so that streams pass."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from observability.setup import Telemetry
from observability.stages import extracted_context


class TelemetryMiddleware:
    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            with self._telemetry.activated():
                await self._app(scope, receive, send)
            return
        with self._telemetry.activated(), extracted_context(Headers(scope=scope)):
            await self._app(scope, receive, send)
