"""Comparisons of samplers and their pictures, one at a time: what the HTTP side calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from app.compare_documents import ComparisonDocument
from app.compare_job import PictureFormat
from app.compare_process import ComparisonDrawer
from app.compare_samplers import ComparisonRequest, SamplerComparer
from app.errors import BusyError

DRAWN_AGAIN_S: Final = 60.0


class Comparisons:
    """Remembers the latest one, so that its picture shows what its document said."""

    def __init__(
        self, comparer: SamplerComparer, drawer: ComparisonDrawer, clock: Callable[[], float]
    ) -> None:
        """`clock` counts seconds, from whenever."""
        self._comparer = comparer
        self._drawer = drawer
        self._clock = clock
        self._running = asyncio.Lock()
        self._latest: tuple[ComparisonRequest, float, ComparisonDocument] | None = None

    async def document(self, request: ComparisonRequest) -> ComparisonDocument:
        """Made anew. Raises `BusyError`, and what `SamplerComparer` raises."""
        async with self._turn(request):
            return await self._compared(request)

    async def picture(self, request: ComparisonRequest, picture_format: PictureFormat) -> bytes:
        """Of the same request's document within a minute, else of a new one.

        Raises what `document` raises, and `UnavailableError` where it cannot be drawn.
        """
        async with self._turn(request):
            compared = self._remembered(request) or await self._compared(request)
            return await self._drawer.draw(compared, picture_format)

    @asynccontextmanager
    async def _turn(self, request: ComparisonRequest) -> AsyncIterator[None]:
        """Who waits for a video keeps nobody else from comparing."""
        async with self._comparer.ready(request):
            if self._running.locked():
                raise BusyError("Another comparison of samplers is being made.")
            async with self._running:
                yield

    async def _compared(self, request: ComparisonRequest) -> ComparisonDocument:
        compared = await self._comparer.compare(request)
        self._latest = (_key(request), self._clock(), compared)
        return compared

    def _remembered(self, request: ComparisonRequest) -> ComparisonDocument | None:
        if self._latest is None:
            return None
        key, made_s, compared = self._latest
        is_fresh = self._clock() - made_s <= DRAWN_AGAIN_S
        return compared if is_fresh and key == _key(request) else None


def _key(request: ComparisonRequest) -> ComparisonRequest:
    return replace(request, wait_s=0.0)
