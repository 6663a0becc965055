"""What all selections of one process share: the event loop, the connections and the breaker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from app.scorer.account import SelectionAccount
from app.scorer.breaker import CircuitBreaker, CircuitRule
from app.scorer.client import ScoringClient
from app.scorer.reply import ScorerOutageError
from app.scorer.spec import ScorerSpec
from samplers.contract import ScorerUnavailableError

Result = TypeVar("Result")
Asking: TypeAlias = Callable[[ScoringClient], Coroutine[Any, Any, Result]]


class ScorerBackend:
    """Samplers block; the calls of one question go out together from a loop in a thread."""

    def __init__(self, spec: ScorerSpec, rule: CircuitRule | None = None) -> None:
        self.spec = spec
        self._breaker = CircuitBreaker(rule or CircuitRule(), time.monotonic)
        self._last_failure = ""
        self._loop = asyncio.new_event_loop()
        # A daemon: whoever kills or ends this process must not wait for a model.
        self._thread = threading.Thread(target=self._loop.run_forever, name="scorer", daemon=True)
        self._thread.start()
        self._client = self._run(self._made_client())

    def ask(self, asking: Asking[Result], account: SelectionAccount) -> Result:
        """Run `asking` unless the server has been given up. Blocks.

        Raises `ScorerUnavailableError`, and what `asking` raises.
        """
        if account.remaining_s <= 0:
            raise ScorerUnavailableError("The selection's time was up before the model was asked.")
        wait_s = self._breaker.admit()
        if wait_s is not None:
            account.add(breaker_refusals=1)
            raise ScorerOutageError(
                f"The scoring model {self.spec.model_id} failed several selections in a row; it "
                f"is not asked again for {wait_s:.0f} s. It was last: {self._last_failure}"
            )
        started_s = time.monotonic()
        try:
            result = self._run(asking(self._client))
        except ScorerOutageError as exc:
            self._last_failure = str(exc)
            account.add(breaker_openings=int(self._breaker.fail()))
            raise
        except BaseException:
            self._breaker.abandon()
            raise
        finally:
            account.add(seconds=time.monotonic() - started_s)
        self._breaker.succeed()
        return result

    def close(self) -> None:
        """End the connections and the loop."""
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _made_client(self) -> ScoringClient:
        return ScoringClient(self.spec)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()


@lru_cache(maxsize=4)
def process_backend(spec: ScorerSpec) -> ScorerBackend:
    """The one backend of this process for `spec`: the breaker remembers from one selection to the
    next, and connections are kept."""
    return ScorerBackend(spec)
