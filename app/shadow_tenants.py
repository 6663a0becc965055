"""How many comparisons each tenant has had this minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

WINDOW_S = 60.0


class TenantCounts:
    """Counts within windows of a minute; what is older is forgotten. Used from one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until_s = float("-inf")
        self._counts: Counter[str] = Counter()

    def count(self, tenant: str) -> None:
        self._begin_window()
        self._counts[tenant] += 1

    def this_minute(self, tenant: str) -> int:
        self._begin_window()
        return self._counts[tenant]

    def _begin_window(self) -> None:
        now_s = self._clock()
        if now_s >= self._until_s:
            self._until_s = now_s + WINDOW_S
            self._counts.clear()
