"""No request but an upload has a large body; the framework would read any into memory."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

UPLOAD_PATH = "/v1/videos"
"""Limits its body itself, while it stores it."""


class BodyLimitMiddleware:
    """413 for a body above `max_bytes`, by its stated length or as soon as it is exceeded."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != UPLOAD_PATH:
            receive = _BoundedReceive(scope, receive, self._max_bytes)
        await self._app(scope, receive, send)


class _BoundedReceive:
    def __init__(self, scope: Scope, receive: Receive, max_bytes: int) -> None:
        self._receive = receive
        self._state = scope.setdefault("state", {})
        self._max_bytes = max_bytes
        self._stated_bytes = int(Headers(scope=scope).get("Content-Length", "0"))
        self._num_bytes = 0
        self._is_refused = False

    async def __call__(self) -> Message:
        if self._is_refused:  # What still comes is thrown away by the reply.
            return await self._receive()
        if self._stated_bytes > self._max_bytes:
            self._refuse()
        message = await self._receive()
        self._num_bytes += len(message.get("body", b""))
        if self._num_bytes > self._max_bytes:
            self._refuse()
        return message

    def _refuse(self) -> None:
        self._is_refused = True
        self._state["is_body_unread"] = True
        # The one exception that the framework's reader of bodies lets pass.
        raise HTTPException(413, f"The limit is {self._max_bytes} bytes.")
