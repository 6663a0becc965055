"""GET /v1/shadow/report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.shadow import is_page_wanted, moment_s
from shadow.records import ComparisonRecord
from tests.app.answer_world import (
    AnswerWorld,
    IndexedData,
    assert_problem,
    build_world,
    running,
)
from tests.shadow.report_records import NOW_S, many

pytestmark = pytest.mark.anyio

REPORT = "/v1/shadow/report"
LONG_AGO = {"since": "2020-01-01"}
BROWSER_ACCEPTS = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def recorded(video_id: str, *, seconds_ago: float) -> list[ComparisonRecord]:
    """Comparisons on the short clip, of which all twenty frames are candidates."""
    now_s = datetime.now(UTC).timestamp()
    return [
        replace(r, video_id=video_id, video_seconds=10.0, created_s=now_s - seconds_ago)
        for r in many(40, num_frames=20)
    ]


@pytest.fixture
def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    made = build_world(tmp_path / "data", indexed)
    records = recorded(indexed.short_id, seconds_ago=7200.0)
    made.gateway.ledger.ledger.put_comparisons(records)
    return made


@pytest.fixture
async def client(world: AnswerWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as made:
        yield made


async def report(client: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    reply = await client.get(REPORT, params=query)
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


async def test_the_report_is_json_unless_something_else_is_preferred(
    client: httpx.AsyncClient,
) -> None:
    reply = await client.get(REPORT)
    document = reply.json()
    [pair] = document["pairs"]

    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Cache-Control"] == "no-store"
    assert (document["num_comparisons"], document["num_a_a"]) == (36, 4)
    assert (pair["control"]["id"], pair["shadow"]["id"]) == ("uniform", "aks")
    assert len(pair["overall"]["measures"]) == 9


@pytest.mark.parametrize(
    ("accept", "format_asked", "is_page"),
    [
        (BROWSER_ACCEPTS, None, True),
        (BROWSER_ACCEPTS, "json", False),
        ("application/json", "html", True),
        ("text/html;q=0.2, application/json;q=0.9", None, False),
        ("text/*, application/json;q=0.5", None, True),
        ("*/*", None, False),
        ("", None, False),
        ("nonsense;;q=x", None, False),
    ],
)
def test_format_decides_and_else_the_accept_header(
    accept: str, format_asked: str | None, is_page: bool
) -> None:
    assert is_page_wanted(format_asked, accept) is is_page


async def test_a_browser_gets_the_page(client: httpx.AsyncClient) -> None:
    reply = await client.get(REPORT, headers={"Accept": BROWSER_ACCEPTS})
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Vary"] == "Accept"


async def test_the_page_shows_pictures_of_the_frames_and_lets_nothing_run(
    client: httpx.AsyncClient,
) -> None:
    reply = await client.get(REPORT, params={"format": "html"})
    assert reply.text.count('<img src="data:image/jpeg;base64,') == 6 * 8
    assert "no picture" not in reply.text
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")


async def test_a_deleted_video_leaves_the_report_without_pictures(
    client: httpx.AsyncClient, world: AnswerWorld, indexed: IndexedData
) -> None:
    layout = world.gateway.base.layout
    layout.derived(indexed.short_id).rename(layout.root / "gone")
    reply = await client.get(REPORT, params={"format": "html"})
    assert reply.status_code == 200
    assert "<img" not in reply.text


async def test_only_comparisons_of_the_time_are_taken(client: httpx.AsyncClient) -> None:
    assert (await report(client, since="90m"))["num_comparisons"] == 0
    assert (await report(client, since="3h", until="100m"))["num_comparisons"] == 36
    assert (await report(client, **LONG_AGO))["num_comparisons"] == 36
    assert (await report(client, since="999999w"))["since"] == "1970-01-01T00:00:00Z"


async def test_a_sampler_may_be_named(client: httpx.AsyncClient) -> None:
    assert (await report(client, sampler="aks"))["num_comparisons"] == 36
    assert (await report(client, sampler="bolt"))["pairs"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"since": "yesterday"}, "query.since"),
        ({"until": "24"}, "query.until"),
        ({"format": "pdf"}, "query.format"),
        ({"smapler": "aks"}, "query.smapler"),
    ],
)
async def test_a_wrong_parameter_is_named(
    client: httpx.AsyncClient, query: dict[str, str], field: str
) -> None:
    problem = assert_problem(await client.get(REPORT, params=query), 422, "invalid-request")
    assert [error["field"] for error in problem["errors"]] == [field]


async def test_a_time_that_ends_before_it_begins_is_refused(client: httpx.AsyncClient) -> None:
    for query in ({"since": "1h", "until": "2h"}, {"since": "2999-01-01"}):
        reply = await client.get(REPORT, params=query)
        problem = assert_problem(reply, 422, "invalid-request")
        assert "`since` is not before `until`" in problem["detail"]


async def test_an_unknown_sampler_is_refused(client: httpx.AsyncClient) -> None:
    assert_problem(await client.get(REPORT, params={"sampler": "ask"}), 422, "unknown-sampler")


async def test_the_report_is_for_operators(tmp_path: Path) -> None:
    world = build_world(tmp_path / "data", operator_key="right")
    async with running(world) as client:
        refused = await client.get(REPORT)
        let_in = await client.get(REPORT, headers={"Authorization": "Bearer right"})
    assert_problem(refused, 403, "operator-key-required")
    assert let_in.json()["pairs"] == []


async def test_a_second_report_at_once_is_asked_to_wait(
    client: httpx.AsyncClient, world: AnswerWorld
) -> None:

    first, second = await asyncio.gather(client.get(REPORT), client.get(REPORT))
    assert sorted([first.status_code, second.status_code]) == [200, 429]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", NOW_S - 5400),
        ("1w", NOW_S - 604_800),
        ("2026-11-30T12:00:00Z", 1_796_040_000.0),
        ("2026-11-30T12:00:00", 1_796_040_000.0),
        ("2026-11-30T14:00:00+02:00", 1_796_040_000.0),
        ("2026-11-30", 1_795_996_800.0),
    ],
)
def test_moments_are_ages_or_times(text: str, seconds: float) -> None:
    assert moment_s(text, NOW_S) == seconds


@pytest.mark.parametrize("text", ["", "24", "24 h", "-1h", "1.5h", "0000-00-00", "2026-13-01"])
def test_what_is_no_moment_is_told_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write 90m, 24h or 7d"):
        moment_s(text, NOW_S)
