"""How far the indexing of one video is, and a way to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from app.errors import VideoNotReadyError
from app.stores.rows import VideoStatus

DECODE_SHARE = 0.6
"""Of the progress; the pictures' embeddings are the rest."""
SMALLEST_STEP = 0.01
UNKNOWN_REMAINING_S = 5.0
LONGEST_RETRY_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """`fraction` is 0..1 and never falls while one job runs."""

    status: VideoStatus
    fraction: float


class IndexJob:
    """One video that is queued or being indexed. Belongs to the event loop's thread."""

    def __init__(self, video_id: str, clock: Callable[[], float]) -> None:
        self.video_id = video_id
        self.progress = IndexProgress(VideoStatus.PENDING, 0.0)
        self.is_done = False
        self._clock = clock
        self._started_s: float | None = None
        self._changed = asyncio.Event()

    def start(self) -> None:
        """The job left the queue."""
        self._started_s = self._clock()
        self._show(0.0)

    def decoded(self, fraction: float) -> None:
        self._advance(DECODE_SHARE * fraction)

    def encoded(self, fraction: float) -> None:
        self._advance(DECODE_SHARE + (1.0 - DECODE_SHARE) * fraction)

    def finish(self) -> None:
        """Whatever became of it: the catalogue knows."""
        self.is_done = True
        self._wake()

    async def until_done(self, deadline_s: float) -> AsyncIterator[IndexProgress]:
        """Every change of progress, until the job is done.

        Raises VideoNotReadyError, with an estimate of the rest, once the clock passes `deadline_s`.
        """
        while not self.is_done:
            yield self.progress
            try:
                async with asyncio.timeout(deadline_s - self._clock()):
                    await self._changed.wait()
            except TimeoutError as exc:
                raise self.not_ready() from exc

    def not_ready(self) -> VideoNotReadyError:
        percent = round(100 * self.progress.fraction)
        return VideoNotReadyError(
            f"The video is {self.progress.status} ({percent} %).",
            retry_after_s=self._remaining_s(),
        )

    def _remaining_s(self) -> float:
        fraction = self.progress.fraction
        if self._started_s is None or fraction < 0.05:
            return UNKNOWN_REMAINING_S
        elapsed_s = self._clock() - self._started_s
        return min(LONGEST_RETRY_AFTER_S, max(1.0, elapsed_s * (1.0 - fraction) / fraction))

    def _advance(self, fraction: float) -> None:
        # A hundred waiters need not wake for every picture.
        if fraction >= self.progress.fraction + SMALLEST_STEP:
            self._show(min(1.0, fraction))

    def _show(self, fraction: float) -> None:
        self.progress = IndexProgress(VideoStatus.PROCESSING, fraction)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
