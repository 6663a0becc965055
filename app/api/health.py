"""Is it alive, can it answer, and its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from app.api.kill_switch import KillSwitchDocument, kill_switch_document
from app.errors import UnavailableError
from flags.kill_switch import KillSwitch
from flags.provider import FlagFile

CHECK_TIMEOUT_S = 2.0


class PartDocument(BaseModel):
    is_ready: bool
    detail: str = Field("", description="What is wrong, or what the part is.")
    process: str = Field(
        "", description="What the supervisor says of its process; empty where nobody supervises it."
    )


class ReadinessDocument(BaseModel):
    is_ready: bool = Field(description="Questions can be answered now.")
    parts: dict[str, PartDocument]
    kill_switch: KillSwitchDocument
    flags_alarm: str | None = Field(description="Why the flag file is not obeyed, if so.")
    flag_version: str | None


Check = Callable[[], Awaitable[str]]
"""Returns what the part is; raises `UnavailableError` when it is away."""


@dataclass(frozen=True, slots=True)
class HealthServices:
    checks: Mapping[str, Check]
    process_texts: Callable[[], Mapping[str, str]]
    """What the supervisor says of each part, by name."""
    flag_file: FlagFile
    kill_switch: KillSwitch
    metrics_text: Callable[[], bytes]


def health_router(services: HealthServices) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="The gateway is alive")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @router.get(
        "/readyz",
        responses={503: {"model": ReadinessDocument}},
        summary="Every part that an answer needs is there",
    )
    async def readyz(response: Response) -> ReadinessDocument:
        names = list(services.checks)
        parts = await asyncio.gather(*(checked(services.checks[name]) for name in names))
        texts = services.process_texts()
        explained = {
            name: part.model_copy(update={"process": texts.get(name, "")})
            for name, part in zip(names, parts, strict=True)
        }
        document = _readiness(explained, services)
        if not document.is_ready:
            response.status_code = 503
            response.headers["Retry-After"] = "5"
        return document

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics() -> Response:
        text = await asyncio.to_thread(services.metrics_text)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return router


def _readiness(parts: dict[str, PartDocument], services: HealthServices) -> ReadinessDocument:
    services.flag_file.refresh()
    alarm = services.flag_file.alarm
    return ReadinessDocument(
        is_ready=all(part.is_ready for part in parts.values()),
        parts=parts,
        kill_switch=kill_switch_document(services.kill_switch.read()),
        flags_alarm=None if alarm is None else f"{alarm.kind}: {alarm.detail}",
        flag_version=services.flag_file.version,
    )


async def checked(check: Check, timeout_s: float = CHECK_TIMEOUT_S) -> PartDocument:
    try:
        async with asyncio.timeout(timeout_s):
            return PartDocument(is_ready=True, detail=await check())
    except TimeoutError:
        return PartDocument(is_ready=False, detail=f"no answer within {timeout_s:g} s")
    except UnavailableError as exc:
        return PartDocument(is_ready=False, detail=exc.detail)
