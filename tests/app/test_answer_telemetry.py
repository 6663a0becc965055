"""The trace of one answer, as a collector gets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from tests.app.answer_world import (
    AnswerWorld,
    IndexedData,
    ask,
    assert_problem,
    build_world,
    post,
    running,
)

pytestmark = pytest.mark.anyio

STAGES = ["select_frames", "encode", "reduce", "generate"]


@pytest.fixture
async def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed)


@pytest.fixture
async def exporter(world: AnswerWorld) -> InMemorySpanExporter:
    made = InMemorySpanExporter()
    world.gateway.base.telemetry.tracer_provider.add_span_processor(SimpleSpanProcessor(made))
    return made


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def context(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


async def test_the_stages_are_children_of_the_answer_and_the_answer_of_the_request(
    world: AnswerWorld, exporter: InMemorySpanExporter, indexed: IndexedData
) -> None:
    async with running(world) as client:
        answer = await ask(client, indexed.short_id)
    spans = by_name(exporter)
    ids = {name: context(span).span_id for name, span in spans.items()}

    assert list(spans) == [*STAGES, "answer_question", "request"]
    assert {parent_id(spans[name]) for name in STAGES} == {ids["answer_question"]}
    assert parent_id(spans["answer_question"]) == ids["request"]
    assert parent_id(spans["request"]) is None
    traces = {format(context(span).trace_id, "032x") for span in spans.values()}
    assert traces == {answer["trace_id"]}


async def test_the_generation_is_described_by_the_gen_ai_conventions(
    world: AnswerWorld, exporter: InMemorySpanExporter, indexed: IndexedData
) -> None:
    async with running(world) as client:
        await ask(client, indexed.short_id, max_tokens=20, seed=3)
    attributes = dict(by_name(exporter)["generate"].attributes or {})
    first_chunk_s = attributes.pop("gen_ai.response.time_to_first_chunk")

    assert isinstance(first_chunk_s, float)
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "fake-llm",
        "gen_ai.request.max_tokens": 20,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.seed": 3,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.response.finish_reasons": ("stop",),
    }


async def test_a_problem_shows_the_trace_of_its_request(
    world: AnswerWorld, exporter: InMemorySpanExporter
) -> None:
    async with running(world) as client:
        problem = assert_problem(await post(client, "0" * 64), 404, "video-not-found")
    request = by_name(exporter)["request"]

    assert problem["trace_id"] == format(context(request).trace_id, "032x")


async def test_probes_leave_no_trace(world: AnswerWorld, exporter: InMemorySpanExporter) -> None:
    async with running(world) as client:
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
            assert (await client.get(path)).status_code == 200
    assert by_name(exporter) == {}
