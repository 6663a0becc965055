"""No request but an upload has a large body, or a slow one; the framework would wait for any."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NoReturn

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

UPLOAD_PATH = "/v1/videos"
"""Limits its body itself, while it stores it."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    max_bytes: int
    max_s: float
    """From the moment it is asked for to its last byte."""


class BodyLimitMiddleware:
    """413 for a body above the limit, by its stated length or as soon as it is exceeded; 408 for
    one that does not arrive in time."""

    def __init__(self, app: ASGIApp, limits: BodyLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != UPLOAD_PATH:
            receive = _BoundedReceive(scope, receive, self._limits)
        await self._app(scope, receive, send)


class _BoundedReceive:
    def __init__(self, scope: Scope, receive: Receive, limits: BodyLimits) -> None:
        self._receive = receive
        self._state = scope.setdefault("state", {})
        self._limits = limits
        self._stated_bytes = int(Headers(scope=scope).get("Content-Length", "0"))
        self._num_bytes = 0
        self._deadline_s: float | None = None
        self._is_refused = False
        self._is_complete = False

    async def __call__(self) -> Message:
        # What still comes of a refused body is thrown away by the reply; after a complete one only
        # the client's leaving can come, whenever that is.
        if self._is_refused or self._is_complete:
            return await self._receive()
        if self._stated_bytes > self._limits.max_bytes:
            self._refuse_large()
        message = await self._next()
        self._is_complete = not message.get("more_body", False)
        self._num_bytes += len(message.get("body", b""))
        if self._num_bytes > self._limits.max_bytes:
            self._refuse_large()
        return message

    async def _next(self) -> Message:
        now_s = asyncio.get_running_loop().time()
        self._deadline_s = self._deadline_s or now_s + self._limits.max_s
        try:
            async with asyncio.timeout_at(self._deadline_s):
                return await self._receive()
        except TimeoutError:
            self._refuse(408, f"The limit is {self._limits.max_s:g} s.")

    def _refuse_large(self) -> NoReturn:
        self._refuse(413, f"The limit is {self._limits.max_bytes} bytes.")

    def _refuse(self, status: int, detail: str) -> NoReturn:
        self._is_refused = True
        self._state["is_body_unread"] = True
        # The one exception that the framework's reader of bodies lets pass.
        raise HTTPException(status, detail)
