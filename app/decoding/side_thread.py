"""One thread beside the decoder's own, for what is made of its frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

MAX_WAITING = 4
"""Each waiting call may hold a decoded frame, so this bounds memory."""


class SideThread:
    """Runs calls in the order in which they are handed over; errors surface at a later hand-over.

    Scaling and JPEG encoding release the interpreter's lock, and the decoder's threads leave a part
    of their processors idle: pictures and shots then cost less wall time than processor time.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decode-side")
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def hand_over(self, call: Callable[[], None]) -> None:
        """Run `call` after all earlier ones; waits while too many wait. Raises what one raised."""
        while len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._executor.submit(call))

    def finish(self) -> None:
        """Wait for all calls. Raises what one raised."""
        while self._waiting:
            self._waiting.popleft().result()
