"""Asks an OpenAI-compatible server, several calls at a time, and repeats what failed by chance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import httpx
from opentelemetry import propagate
from pydantic import ValidationError

from app.scorer.account import SelectionAccount
from app.scorer.prompts import ContentPart
from app.scorer.reply import ChatReply, ScorerOutageError, refusal
from app.scorer.spec import ScorerSpec

CONNECT_S = 2.0
PAUSES_S = (0.1, 0.2)
"""Before each repetition of a call; a server's `Retry-After` outweighs it. Without jitter: `spec`
bounds how many calls of a process meet again, and a test can tell when."""
TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})

Job: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class ScoringClient:
    """Lives on one event loop."""

    def __init__(self, spec: ScorerSpec) -> None:
        self._spec = spec
        self._url = f"{spec.url.rstrip('/').removesuffix('/v1')}/v1/chat/completions"
        key = spec.api_key
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(spec.call_timeout_s, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=spec.concurrency),
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            trust_env=False,
        )
        self._in_flight = asyncio.Semaphore(spec.concurrency)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def run_all(self, jobs: list[Job], account: SelectionAccount) -> None:
        """Run the jobs, at most `concurrency` at a time, within what is left of the selection.

        The first failure cancels the rest. Raises `ScorerUnavailableError`, and what jobs raise.
        """
        try:
            async with asyncio.timeout(max(0.0, account.remaining_s)), asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(self._in_turn(job))
        except TimeoutError as exc:
            raise ScorerOutageError(
                f"The scoring model did not answer {len(jobs)} calls within the selection's "
                f"{account.deadline_s:g} s."
            ) from exc
        except BaseExceptionGroup as exc:
            first = _first(exc)
            raise first from first.__cause__

    async def ask(
        self, parts: list[ContentPart], options: dict[str, object], account: SelectionAccount
    ) -> ChatReply:
        """One question, in one user message. Raises `ScorerUnavailableError`."""
        body = {
            "model": self._spec.model_id,
            "messages": [{"role": "user", "content": parts}],
            "temperature": 0,
            **options,
        }
        pauses_s = iter(PAUSES_S)
        account.add(calls=1)
        while True:
            try:
                return await self._attempt(body, account)
            except _TemporaryError as exc:
                pause_s = next(pauses_s, None)
                if pause_s is None or not account.take_retry():
                    raise exc.failure from exc.__cause__
                await asyncio.sleep(max(pause_s, exc.retry_after_s))
                account.add(calls=1, retried_calls=1)

    async def _in_turn(self, job: Job) -> None:
        async with self._in_flight:
            await job()

    async def _attempt(self, body: dict[str, object], account: SelectionAccount) -> ChatReply:
        response = await self._post(body)
        if response.status_code != httpx.codes.OK:
            failure = refusal(response.status_code, response.text, self._spec.model_id)
            if response.status_code in TEMPORARY:
                raise _TemporaryError(failure, _retry_after_s(response))
            raise failure
        try:
            reply = ChatReply.model_validate_json(response.content)
        except ValidationError as exc:
            raise ScorerOutageError("The scoring server sent something that is no reply.") from exc
        if reply.usage is not None:
            account.add(
                input_tokens=reply.usage.prompt_tokens, output_tokens=reply.usage.completion_tokens
            )
        return reply

    async def _post(self, body: dict[str, object]) -> httpx.Response:
        headers: dict[str, str] = {}
        propagate.inject(headers)
        where = f"The scoring server at {self._spec.url}"
        try:
            # httpx's own timeouts bound the silence between two bytes, not the whole call.
            async with asyncio.timeout(self._spec.call_timeout_s):
                return await self._http.post(self._url, json=body, headers=headers)
        except httpx.ConnectError as exc:
            raise _TemporaryError(ScorerOutageError(f"{where} cannot be reached.")) from exc
        except (httpx.TimeoutException, TimeoutError) as exc:
            late = f"{where} did not answer within {self._spec.call_timeout_s:g} s."
            raise _TemporaryError(ScorerOutageError(late)) from exc
        except httpx.HTTPError as exc:
            broken = f"{where} broke the connection: {exc}"
            raise _TemporaryError(ScorerOutageError(broken)) from exc
        except httpx.InvalidURL as exc:
            raise ScorerOutageError(f"{where} has an address that is none: {exc}") from exc


class _TemporaryError(Exception):
    """A failure that the same call may not meet again."""

    def __init__(self, failure: Exception, retry_after_s: float = 0.0) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.retry_after_s = retry_after_s


def _retry_after_s(response: httpx.Response) -> float:
    """Of the header in seconds; its other form, a date, is not used by such servers."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else 0.0


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
