"""Looks at the rollout every second, in one gateway of all that share the ledger.

Which one is settled by a lease in the ledger: when its holder dies, another gateway takes over
after the lease's time. The statistics run in a thread, not on the event loop, and get a small share
of one processor at most.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

from app.errors import LedgerUnavailableError
from app.rollout_surroundings import LiveFacts
from app.rollout_telemetry import RolloutTelemetry
from app.stores.ledger import Ledger
from flags.rollout import RolloutController

LEASE = "rollout"
REST = 9.0
"""After a look that took a second, at least so many seconds of rest."""


@dataclass(frozen=True, slots=True)
class RunnerTimes:
    tick_s: float
    """From one look to the next."""
    lease_s: float
    """How long a lease outlives its holder."""


@dataclass(frozen=True, slots=True)
class RunnerParts:
    controller: RolloutController
    ledger: Ledger
    facts: LiveFacts
    telemetry: RolloutTelemetry
    holder: str
    """Names this process in the lease."""


class RolloutRunner:
    """Use as `async with runner.running()`."""

    def __init__(self, parts: RunnerParts, times: RunnerTimes) -> None:
        self._parts = parts
        self._times = times
        self._stop = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Looks at the rollout while the block runs; then lets go of the lease."""
        task = asyncio.create_task(self._keep_looking(), name="rollout")
        try:
            yield
        finally:
            # Not cancelled: a thread goes on all the same, with a ledger that is being closed.
            self._stop.set()
            await task

    async def _keep_looking(self) -> None:
        while not self._stop.is_set():
            began_s = perf_counter()
            if await asyncio.to_thread(self._is_needed):
                await self._parts.facts.refresh()
                await asyncio.to_thread(self._look)
            rest_s = max(self._times.tick_s, REST * (perf_counter() - began_s))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._stop.wait()
        with contextlib.suppress(LedgerUnavailableError):
            await asyncio.to_thread(self._parts.ledger.release_lease, LEASE, self._parts.holder)

    def _is_needed(self) -> bool:
        """Whether there is a rollout, or a step that a crash interrupted: mostly there is none."""
        parts = self._parts
        try:
            rollout = parts.ledger.active_rollout()
            parts.telemetry.stands(rollout)
            return rollout is not None or parts.ledger.open_intent() is not None
        except Exception as exc:  # noqa: BLE001 - nothing stands above; the next look tries again
            parts.telemetry.look_failed(exc)
            return False

    def _look(self) -> None:
        parts = self._parts
        try:
            if parts.ledger.take_lease(LEASE, parts.holder, self._times.lease_s):
                step = parts.controller.tick()
                if step is not None:
                    parts.telemetry.step_taken(step)
            parts.telemetry.stands(parts.ledger.active_rollout())
        except Exception as exc:  # noqa: BLE001 - nothing stands above; the next look tries again
            parts.telemetry.look_failed(exc)
