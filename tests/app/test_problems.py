"""Every error is a problem document, and every one is documented."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from app.api.problems import (
    MAX_BODY_BYTES,
    ProblemDocument,
    documented_problems,
    install_problem_handlers,
)
from app.errors import BusyError, FramegateError, all_errors

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).resolve().parents[2] / "docs" / "http.md"
ERRORS = {error.__name__: error for error in all_errors()}


class Item(BaseModel):
    count: int


def make_app() -> FastAPI:
    app = FastAPI()
    install_problem_handlers(app)

    @app.get("/errors/{name}")
    async def raise_error(name: str) -> None:
        raise ERRORS[name]("this one")

    @app.get("/unexpected")
    async def unexpected() -> None:
        raise RuntimeError("secret")

    @app.post("/items")
    async def post_item(item: Item, page: Annotated[int, Query(ge=1)] = 1) -> None: ...

    @app.get("/broken-stream")
    async def broken_stream() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"begun"
            raise RuntimeError("secret")

        return StreamingResponse(pieces())

    return app


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(make_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as opened:
        yield opened


def problem_of(response: httpx.Response) -> ProblemDocument:
    assert response.headers["Content-Type"] == "application/problem+json"
    return ProblemDocument.model_validate_json(response.content)


@pytest.mark.parametrize("name", sorted(ERRORS))
async def test_every_error_is_a_problem_with_its_status(
    client: httpx.AsyncClient, name: str
) -> None:
    response = await client.get(f"/errors/{name}")
    problem = problem_of(response)

    error = ERRORS[name]
    assert (response.status_code, problem.status) == (error.status, error.status)
    assert problem.type == f"urn:framegate:problem:{error.code}"
    assert (problem.title, problem.detail, problem.action) == (
        error.title,
        "this one",
        error.action,
    )
    assert problem.instance == f"/errors/{name}"
    assert len(problem.trace_id) == 32
    assert ("Retry-After" in response.headers) == (error.retry_after_s is not None)


def test_every_problem_type_is_documented() -> None:
    text = DOCS.read_text()

    missing = [
        error.code for error in all_errors() if f"`{error.code}` | {error.status}" not in text
    ]
    assert missing == []


def test_every_problem_type_has_one_status() -> None:
    codes = [error.code for error in all_errors()]

    assert len(codes) == len(set(codes))


async def test_wrong_fields_are_named(client: httpx.AsyncClient) -> None:
    problem = problem_of(await client.post("/items?page=0", json={"count": "many"}))

    assert problem.type.endswith(":invalid-request")
    assert problem.errors is not None
    assert {error.field for error in problem.errors} == {"query.page", "body.count"}


async def test_a_body_that_is_no_json_is_an_invalid_request(client: httpx.AsyncClient) -> None:
    for body in (b"{", b"\xff", b"[" * 100_000):
        response = await client.post(
            "/items", content=body, headers={"Content-Type": "application/json"}
        )
        assert problem_of(response).status in (400, 422)


async def test_unknown_addresses_and_methods_are_problems_too(client: httpx.AsyncClient) -> None:
    unknown = await client.get("/nowhere")
    wrong_method = await client.delete("/items")

    assert problem_of(unknown).type.endswith(":not-found")
    assert problem_of(wrong_method).type.endswith(":method-not-allowed")
    assert wrong_method.headers["Allow"] == "POST"


async def test_an_unexpected_error_is_logged_once_and_tells_nothing(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        response = await client.get("/unexpected")

    assert problem_of(response).type.endswith(":internal-error")
    assert "secret" not in response.text
    [record] = caplog.records
    assert record.exc_info is not None
    assert "secret" in str(record.exc_info[1])


async def test_a_stream_that_breaks_midway_is_cut(client: httpx.AsyncClient) -> None:
    with pytest.raises(RuntimeError):
        await client.get("/broken-stream")


def test_retry_after_is_whole_seconds_and_at_least_one() -> None:
    assert BusyError(retry_after_s=0.1).retry_after_s == 0.1
    documented = documented_problems(BusyError, FramegateError)

    assert set(documented) == {429, 500}


async def test_retry_after_is_rounded_up() -> None:
    app = make_app()

    @app.get("/busy/{seconds}")
    async def busy(seconds: float) -> None:
        raise BusyError(retry_after_s=seconds)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        headers = [
            (await client.get(f"/busy/{seconds}")).headers["Retry-After"]
            for seconds in (0.01, 1.2, 7)
        ]

    assert headers == ["1", "2", "7"]


async def test_a_body_that_curl_sent_as_a_form_says_which_header_is_missing(
    client: httpx.AsyncClient,
) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    problem = problem_of(await client.post("/items", content='{"count": 1}', headers=form))

    assert "send `Content-Type: application/json`" in problem.detail


async def test_broken_json_is_said_with_its_place(client: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json"}
    problem = problem_of(await client.post("/items", content='{"count": 1', headers=headers))

    assert problem.detail.startswith("body: no valid JSON at character 11: ")


@pytest.mark.parametrize("is_length_stated", [True, False])
async def test_a_body_above_the_limit_is_refused(
    client: httpx.AsyncClient, is_length_stated: bool
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 65_536 + 1):
            yield b" " * 65_536

    content = b" " * (MAX_BODY_BYTES + 1) if is_length_stated else pieces()
    headers = {"Content-Type": "application/json"}
    response = await client.post("/items", content=content, headers=headers)

    assert (problem_of(response).status, response.headers["Connection"]) == (413, "close")
    assert problem_of(response).type.endswith(":request-too-large")
