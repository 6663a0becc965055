"""Client of an OpenAI-compatible chat server: streams an answer, stops it when nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from opentelemetry import propagate
from pydantic import BaseModel, ValidationError

from app.errors import LlmUnavailableError, QuestionTooLongError
from app.generate.contract import ChatMessage, GenerationOptions, TextDelta, Usage

END_OF_STREAM = "[DONE]"
DATA_FIELD = "data:"
MAX_DETAIL_CHARS = 300


@dataclass(frozen=True, slots=True)
class LlmTimeouts:
    """Seconds. A stream that sends nothing for `between_tokens_s` is taken as broken."""

    connect_s: float = 2.0
    first_token_s: float = 120.0
    between_tokens_s: float = 60.0
    health_s: float = 2.0


class _Delta(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    delta: _Delta
    finish_reason: str | None = None


class _UsageCounts(BaseModel):
    prompt_tokens: int
    completion_tokens: int


class _Chunk(BaseModel):
    """One `chat.completion.chunk`; unknown fields are the server's own business."""

    choices: list[_Choice] = []
    usage: _UsageCounts | None = None
    error: dict[str, Any] | None = None


class OpenAIChatModel:
    """A `LanguageModel` behind `/v1/chat/completions`.

    Every answer has a connection of its own: closing it is what tells the server to stop, and a
    restarted server never meets a stale one. Use `aclose()` at shutdown.
    """

    def __init__(self, base_url: str, model: str, timeouts: LlmTimeouts | None = None) -> None:
        """`base_url` may end in `/v1`, as OpenAI's own clients have it, or not."""
        self._root = base_url.rstrip("/").removesuffix("/v1")
        self._model = model
        self._timeouts = timeouts or LlmTimeouts()
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(
                self._timeouts.between_tokens_s,
                connect=self._timeouts.connect_s,
                read=max(self._timeouts.first_token_s, self._timeouts.between_tokens_s),
            ),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
        )

    @property
    def llm_id(self) -> str:
        return self._model

    async def aclose(self) -> None:
        await self._http.aclose()

    async def is_healthy(self) -> bool:
        """vLLM's `/health`; a server without that page is asked for its models instead."""
        return await self._answers("/health") or await self._answers("/v1/models")

    async def _answers(self, path: str) -> bool:
        try:
            response = await self._http.get(self._root + path, timeout=self._timeouts.health_s)
        except httpx.HTTPError:
            return False
        return response.status_code == httpx.codes.OK

    async def stream(
        self, messages: list[ChatMessage], options: GenerationOptions
    ) -> AsyncGenerator[TextDelta | Usage, None]:
        """Text deltas, then exactly one `Usage`. `aclose()` stops the generation.

        Raises `LlmUnavailableError` (away, too slow, or the stream broke) and
        `QuestionTooLongError` (the server says that the prompt exceeds its context).
        """
        async with self._opened(self._body(messages, options)) as chunks:
            finish_reason = ""
            counts: _UsageCounts | None = None
            async for chunk in chunks:
                counts = chunk.usage or counts
                for choice in chunk.choices:
                    finish_reason = choice.finish_reason or finish_reason
                    if choice.delta.content:
                        yield TextDelta(choice.delta.content)
        if counts is None:
            raise LlmUnavailableError("The LLM server ended its stream without a token count.")
        yield Usage(counts.prompt_tokens, counts.completion_tokens, finish_reason or "unknown")

    def _body(self, messages: list[ChatMessage], options: GenerationOptions) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "max_tokens": options.max_tokens,
            "temperature": options.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body if options.seed is None else body | {"seed": options.seed}

    @asynccontextmanager
    async def _opened(self, body: dict[str, object]) -> AsyncIterator[AsyncIterator[_Chunk]]:
        """The reply's chunks, with httpx's errors translated, both in here and while reading."""
        headers: dict[str, str] = {}
        propagate.inject(headers)
        url = f"{self._root}/v1/chat/completions"
        deadline_s = asyncio.get_running_loop().time() + self._timeouts.first_token_s
        try:
            async with asyncio.timeout_at(deadline_s) as patience:
                request = self._http.build_request("POST", url, json=body, headers=headers)
                response = await self._http.send(request, stream=True)
                patience.reschedule(None)
            try:
                if response.status_code != httpx.codes.OK:
                    raise _refusal(response.status_code, await response.aread())
                async with aclosing(self._chunks(response, deadline_s)) as chunks:
                    yield chunks
            finally:
                await response.aclose()
        except httpx.ConnectError as exc:
            raise LlmUnavailableError(f"The LLM server at {self._root} cannot be reached.") from exc
        except (httpx.TimeoutException, TimeoutError) as exc:
            raise LlmUnavailableError("The LLM server took too long to answer.") from exc
        except httpx.HTTPError as exc:
            raise LlmUnavailableError(f"The LLM server's stream broke: {exc}") from exc

    async def _chunks(
        self, response: httpx.Response, deadline_s: float
    ) -> AsyncGenerator[_Chunk, None]:
        """Chunks up to `[DONE]`; comments and keep-alive lines do not stop the clock."""
        lines = response.aiter_lines()
        loop = asyncio.get_running_loop()
        while True:
            async with asyncio.timeout_at(deadline_s):
                data = await _next_data(lines)
            if data == END_OF_STREAM:
                return
            chunk = _parsed(data)
            if chunk.usage or any(c.delta.content or c.finish_reason for c in chunk.choices):
                deadline_s = loop.time() + self._timeouts.between_tokens_s
            yield chunk


async def _next_data(lines: AsyncIterator[str]) -> str:
    async for line in lines:
        if line.startswith(DATA_FIELD):
            return line.removeprefix(DATA_FIELD).strip()
    raise LlmUnavailableError("The LLM server closed its stream before the answer was complete.")


def _parsed(data: str) -> _Chunk:
    try:
        chunk = _Chunk.model_validate_json(data)
    except ValidationError as exc:
        raise LlmUnavailableError(
            f"The LLM server sent a line that is no chat chunk: {data[:MAX_DETAIL_CHARS]}"
        ) from exc
    if chunk.error is not None:
        raise LlmUnavailableError(
            f"The LLM server gave up: {chunk.error.get('message', 'no reason given')}"
        )
    return chunk


def _refusal(status: int, body: bytes) -> LlmUnavailableError | QuestionTooLongError:
    """OpenAI's error code, or vLLM's sentence, tells a prompt that is too long from the rest."""
    text = body.decode(errors="replace")
    is_too_long = "context_length_exceeded" in text or "context length" in text
    if status == httpx.codes.BAD_REQUEST and is_too_long:
        return QuestionTooLongError(f"The LLM server says: {text[:MAX_DETAIL_CHARS]}")
    return LlmUnavailableError(f"The LLM server answered {status}: {text[:MAX_DETAIL_CHARS]}")
