"""The bill, the retry budget and the deadline of one selection."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from app.scorer.spec import ModelCost

MIN_RETRIES = 2
RETRY_SHARE = 0.1
"""A selection may repeat so many of its calls, and `MIN_RETRIES`: a server that fails more often
than now and then must not get more work for it."""


class SelectionAccount:
    """Counts, from any thread."""

    def __init__(self, model_id: str, deadline_s: float) -> None:
        """`deadline_s` from now on."""
        self.deadline_s = deadline_s
        self._ends_s = time.monotonic() + deadline_s
        self._cost = ModelCost(model_id=model_id)
        self._lock = threading.Lock()

    @property
    def cost(self) -> ModelCost:
        """So far."""
        with self._lock:
            return self._cost

    @property
    def remaining_s(self) -> float:
        return self._ends_s - time.monotonic()

    def add(
        self,
        *,
        calls: int = 0,
        cached_scores: int = 0,
        missed_scores: int = 0,
        input_tokens: int = 0,
        output_tokens: int = 0,
    ) -> None:
        with self._lock:
            self._cost = replace(
                self._cost,
                calls=self._cost.calls + calls,
                cached_scores=self._cost.cached_scores + cached_scores,
                missed_scores=self._cost.missed_scores + missed_scores,
                input_tokens=self._cost.input_tokens + input_tokens,
                output_tokens=self._cost.output_tokens + output_tokens,
            )

    def add_seconds(self, seconds: float) -> None:
        with self._lock:
            self._cost = replace(self._cost, seconds=self._cost.seconds + seconds)

    def add_breaker(self, *, openings: int = 0, refusals: int = 0) -> None:
        with self._lock:
            self._cost = replace(
                self._cost,
                breaker_openings=self._cost.breaker_openings + openings,
                breaker_refusals=self._cost.breaker_refusals + refusals,
            )

    def take_retry(self) -> bool:
        """Whether one more call may be repeated; counts it."""
        with self._lock:
            used = self._cost.retried_calls
            first_calls = self._cost.calls - used
            if used >= MIN_RETRIES + int(RETRY_SHARE * first_calls):
                return False
            self._cost = replace(self._cost, retried_calls=used + 1)
            return True
