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
        self._num_granted = 0
        self._lock = threading.Lock()

    @property
    def cost(self) -> ModelCost:
        """So far."""
        with self._lock:
            return self._cost

    @property
    def remaining_s(self) -> float:
        return self._ends_s - time.monotonic()

    def add(self, **amounts: float) -> None:
        """Add to the fields of `ModelCost` of these names."""
        with self._lock:
            sums = {name: getattr(self._cost, name) + more for name, more in amounts.items()}
            self._cost = replace(self._cost, **sums)

    def take_retry(self) -> bool:
        """Whether one more call may be repeated; then it is counted among those that may."""
        with self._lock:
            first_calls = self._cost.calls - self._cost.retried_calls
            if self._num_granted >= MIN_RETRIES + int(RETRY_SHARE * first_calls):
                return False
            self._num_granted += 1
            return True
