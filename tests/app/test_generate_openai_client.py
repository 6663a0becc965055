"""app/generate/openai_client.py against a real HTTP server on the loopback interface."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from app.errors import LlmUnavailableError, QuestionTooLongError
from app.generate.contract import ChatMessage, GenerationOptions, TextDelta, Usage
from app.generate.openai_client import LlmTimeouts, OpenAIChatModel
from tests.fakes import FakeLlmServer, LlmReply, llm_answer

pytestmark = pytest.mark.anyio

MESSAGES = [ChatMessage("system", "Be short."), ChatMessage("user", "What is seen?")]
OPTIONS = GenerationOptions(max_tokens=9, temperature=0.0, seed=3)


@asynccontextmanager
async def chat_model(
    url: str, timeouts: LlmTimeouts | None = None
) -> AsyncIterator[OpenAIChatModel]:
    model = OpenAIChatModel(url, "tiny", timeouts)
    try:
        yield model
    finally:
        await model.aclose()


async def ask(url: str, timeouts: LlmTimeouts | None = None) -> list[TextDelta | Usage]:
    async with chat_model(url, timeouts) as model:
        return [piece async for piece in model.stream(MESSAGES, OPTIONS)]


async def failure(reply: LlmReply, timeouts: LlmTimeouts | None = None) -> LlmUnavailableError:
    with FakeLlmServer(reply) as server, pytest.raises(LlmUnavailableError) as caught:
        await ask(server.url, timeouts)
    return caught.value


async def test_text_comes_piece_by_piece_and_then_one_usage() -> None:
    with FakeLlmServer(llm_answer("two", " cats")) as server:
        pieces = await ask(server.url)
    assert pieces == [TextDelta("two"), TextDelta(" cats"), Usage(7, 2, "stop")]


async def test_a_piece_arrives_before_the_answer_is_complete() -> None:
    with FakeLlmServer(llm_answer("two", " cats", pause_s=0.2)) as server:
        async with (
            chat_model(server.url) as model,
            aclosing(model.stream(MESSAGES, OPTIONS)) as pieces,
        ):
            assert await anext(pieces) == TextDelta("two")


async def test_the_request_carries_model_messages_and_options() -> None:
    with FakeLlmServer() as server:
        await ask(server.url)
    assert server.requests == [
        {
            "model": "tiny",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "What is seen?"},
            ],
            "max_tokens": 9,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "seed": 3,
        }
    ]


async def test_an_address_that_ends_in_v1_is_the_same_server() -> None:
    with FakeLlmServer() as server:
        assert len(await ask(server.url + "/v1")) == 3


async def test_the_trace_context_goes_along() -> None:
    tracer = TracerProvider().get_tracer("test")
    with FakeLlmServer() as server, tracer.start_as_current_span("answer") as span:
        await ask(server.url)
    trace_id = trace.format_trace_id(span.get_span_context().trace_id)
    assert trace_id in server.headers[0]["traceparent"]


async def test_closing_the_iterator_closes_the_stream() -> None:
    with FakeLlmServer(llm_answer(*["on"] * 500, pause_s=0.01)) as server:
        async with chat_model(server.url) as model:
            async with aclosing(model.stream(MESSAGES, OPTIONS)) as pieces:
                await anext(pieces)
            assert await anyio.to_thread.run_sync(server.client_left.wait, 5.0)


async def test_cancelling_the_reader_closes_the_stream() -> None:
    with FakeLlmServer(llm_answer(*["on"] * 500, pause_s=0.01)) as server:
        with anyio.move_on_after(0.3):
            await ask(server.url)
        assert await anyio.to_thread.run_sync(server.client_left.wait, 5.0)


async def test_nobody_listening_is_an_llm_that_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(LlmUnavailableError, match="cannot be reached"):
        await ask(url)
    async with chat_model(url) as model:
        assert not await model.is_healthy()


async def test_a_server_that_answers_its_health_page_is_healthy() -> None:
    with FakeLlmServer() as server:
        async with chat_model(server.url) as model:
            assert await model.is_healthy()


@pytest.mark.parametrize("status", [404, 429, 500, 503])
async def test_a_refusal_is_an_llm_that_is_away_and_says_why(status: int) -> None:
    error = await failure(LlmReply(status=status, lines=("engine died",)))
    assert f"answered {status}: engine died" in error.detail


@pytest.mark.parametrize(
    "message",
    [
        '{"error": {"message": "This model\'s maximum context length is 2048 tokens."}}',
        '{"error": {"code": "context_length_exceeded"}}',
    ],
)
async def test_a_prompt_beyond_the_context_is_a_question_that_is_too_long(message: str) -> None:
    reply = LlmReply(status=400, lines=(message,))
    with FakeLlmServer(reply) as server, pytest.raises(QuestionTooLongError):
        await ask(server.url)


async def test_another_bad_request_is_not_blamed_on_the_question() -> None:
    error = await failure(LlmReply(status=400, lines=('{"error": {"message": "bad seed"}}',)))
    assert "bad seed" in error.detail


async def test_a_stream_that_ends_early_is_a_failure() -> None:
    error = await failure(LlmReply(lines=llm_answer("two").lines[:2]))
    assert "before the answer was complete" in error.detail


async def test_an_answer_without_a_token_count_is_a_failure() -> None:
    lines = tuple(line for line in llm_answer("two").lines if "usage" not in line)
    assert "token count" in (await failure(LlmReply(lines=lines))).detail


@pytest.mark.parametrize("line", ["data: {not json", 'data: {"choices": 3}', "data: []"])
async def test_a_line_that_is_no_chunk_is_a_failure(line: str) -> None:
    assert "no chat chunk" in (await failure(LlmReply(lines=(line,)))).detail


async def test_an_error_inside_the_stream_is_told() -> None:
    line = "data: " + json.dumps({"error": {"message": "engine core died", "code": 500}})
    assert "engine core died" in (await failure(LlmReply(lines=(line, "data: [DONE]")))).detail


async def test_comments_and_unknown_fields_are_passed_over() -> None:
    reply = llm_answer("two")
    with FakeLlmServer(LlmReply(lines=(": keep-alive", "event: x", *reply.lines))) as server:
        assert (await ask(server.url))[0] == TextDelta("two")


async def test_keep_alive_lines_do_not_extend_the_wait_for_the_first_token() -> None:
    reply = LlmReply(lines=(": keep-alive",) * 100, pause_s=0.05)
    error = await failure(reply, LlmTimeouts(first_token_s=0.4))
    assert "too long" in error.detail


async def test_a_stream_that_falls_silent_is_a_failure() -> None:
    reply = llm_answer("two", " cats", pause_s=0.7)
    error = await failure(reply, LlmTimeouts(first_token_s=5.0, between_tokens_s=0.2))
    assert "too long" in error.detail
