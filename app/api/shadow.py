"""The shadow report over HTTP, for operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.api.media_types import preferred
from app.api.operators import OperatorGate
from app.api.problems import documented_problems
from app.errors import (
    BusyError,
    InvalidRequestError,
    LedgerUnavailableError,
    OperatorKeyError,
    UnavailableError,
    UnknownSamplerError,
)
from app.report_process import ShadowReportMaker
from shadow.report_document import ReportScope, ShadowReport

DEFAULT_SINCE: Final = "24h"
HTML: Final = "text/html"
JSON: Final = "application/json"
PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO: Final = re.compile(r"(\d{1,6})([smhdw])")


def _checked_moment(text: str) -> str:
    moment_s(text, 0.0)
    return text


Moment = Annotated[str, AfterValidator(_checked_moment)]


class ReportQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: Moment = Field(
        DEFAULT_SINCE,
        description="So long ago (`90m`, `24h`, `7d`) or a time (`2026-11-30T12:00:00Z`).",
    )
    until: Moment | None = Field(None, description="The same; default now.")
    sampler: str | None = Field(None, description="Only comparisons with it in shadow.")
    format: Literal["json", "html"] | None = Field(
        None, description="Default: what the header `Accept` prefers."
    )


@dataclass(frozen=True, slots=True)
class ShadowServices:
    maker: ShadowReportMaker
    sampler_ids: frozenset[str]
    gate: OperatorGate
    clock: Callable[[], float]


def shadow_router(services: ShadowServices) -> APIRouter:
    router = APIRouter(
        prefix="/v1/shadow", tags=["operators"], dependencies=[Depends(services.gate)]
    )

    @router.get(
        "/report",
        response_model=ShadowReport,
        responses={
            **documented_problems(
                OperatorKeyError,
                InvalidRequestError,
                UnknownSamplerError,
                BusyError,
                LedgerUnavailableError,
                UnavailableError,
            ),
            200: {"content": {HTML: {"schema": {"type": "string"}}}},
        },
        summary="How the sampler in shadow compares with the one that serves",
    )
    async def get_report(query: Annotated[ReportQuery, Query()], request: Request) -> Response:
        scope = _scope(query, services)
        is_page = is_page_wanted(query.format, request.headers.get("accept", ""))
        content = await services.maker.make(scope, is_page=is_page)
        headers = {"Cache-Control": "no-store", "Vary": "Accept"}
        if is_page:
            return Response(content, media_type=HTML, headers=headers | PAGE_HEADERS)
        return Response(content, media_type=JSON, headers=headers)

    return router


def moment_s(text: str, now_s: float) -> float:
    """Seconds since the epoch of `24h` (so long before `now_s`) or of an ISO 8601 time.

    A time without a zone is UTC. Raises ValueError with what to write instead.
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_s - int(ago[1]) * _SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as exc:
        raise ValueError(
            f"{text!r} is no time: write 90m, 24h or 7d for so long ago, or 2026-11-30T12:00:00Z"
        ) from exc


def _scope(query: ReportQuery, services: ShadowServices) -> ReportScope:
    """Raises `RequestError`."""
    if query.sampler is not None and query.sampler not in services.sampler_ids:
        raise UnknownSamplerError(f"There is no sampler {query.sampler!r}.")
    now_s = services.clock()
    until_s = now_s if query.until is None else min(now_s, moment_s(query.until, now_s))
    since_s = max(0.0, moment_s(query.since, now_s))
    if since_s >= until_s:
        raise InvalidRequestError("`since` is not before `until`, or lies in the future.")
    return ReportScope(since_s=since_s, until_s=until_s, sampler=query.sampler)


def is_page_wanted(format_asked: str | None, accepted: str) -> bool:
    """HTML rather than JSON: as `format` says, else as the header `Accept` prefers."""
    if format_asked is not None:
        return format_asked == "html"
    return preferred(accepted, (JSON, HTML)) == HTML
