"""Stops calling a sampler that keeps overrunning its deadline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BreakerRule:
    """Opens after `max_overruns` within `window_s`, for `open_s`."""

    max_overruns: int = 3
    window_s: float = 60.0
    open_s: float = 60.0


@dataclass(slots=True)
class _State:
    overruns: deque[float] = field(default_factory=deque)
    open_until_s: float = float("-inf")


class SamplerBreaker:
    """One state per sampler id. Used from the event loop only.

    When `open_s` has passed the sampler is called again; one further overrun opens it at once.
    """

    def __init__(self, rule: BreakerRule, clock: Callable[[], float]) -> None:
        self._rule = rule
        self._clock = clock
        self._states: dict[str, _State] = {}

    def is_open(self, sampler_id: str) -> bool:
        state = self._states.get(sampler_id)
        return state is not None and self._clock() < state.open_until_s

    def record_overrun(self, sampler_id: str) -> None:
        now = self._clock()
        state = self._states.setdefault(sampler_id, _State())
        state.overruns.append(now)
        while len(state.overruns) > self._rule.max_overruns:
            state.overruns.popleft()
        is_retrial = state.open_until_s > float("-inf")
        is_repeated = (
            len(state.overruns) == self._rule.max_overruns
            and now - state.overruns[0] <= self._rule.window_s
        )
        if is_retrial or is_repeated:
            state.open_until_s = now + self._rule.open_s

    def record_success(self, sampler_id: str) -> None:
        """A finished call after the breaker was open closes it for good."""
        state = self._states.get(sampler_id)
        if state is not None and self._clock() >= state.open_until_s > float("-inf"):
            del self._states[sampler_id]
