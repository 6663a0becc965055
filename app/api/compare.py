"""Samplers side by side over HTTP, for operators: JSON, or one picture. No decisions here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.answers import CLIENT_CLOSED_REQUEST, DEFAULT_WAIT_S
from app.api.client_left import ClientLeftError, run_while_connected
from app.api.media_types import preferred
from app.api.operators import OperatorGate
from app.api.problems import documented_problems
from app.api.video_schemas import VideoIdPath
from app.compare_documents import ComparisonDocument
from app.compare_job import PictureFormat
from app.compare_samplers import ComparisonRequest
from app.compare_side import Comparisons
from app.errors import (
    BusyError,
    EncoderUnavailableError,
    IndexFailedError,
    InvalidRequestError,
    OperatorKeyError,
    QuestionTooLongError,
    UnavailableError,
    UnknownSamplerError,
    UnreadableVideoError,
    VideoNotFoundError,
    VideoNotReadyError,
)
from app.sampler_variants import split_ids

MAX_SAMPLERS: Final = 12
MAX_BUDGET: Final = 128
JSON: Final = "application/json"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    "json": JSON,
    PictureFormat.PNG: "image/png",
    PictureFormat.SVG: "image/svg+xml",
}
PICTURE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


class CompareQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    question: str = Field(min_length=1, description="What an answer would be asked.")
    samplers: str = Field(
        min_length=1,
        max_length=2048,
        description=f"Ids, separated by commas; at most {MAX_SAMPLERS}, the first one is what the "
        "others are measured from.",
        examples=["aks,bolt,uniform"],
    )
    budget: int = Field(16, ge=1, le=MAX_BUDGET, description="Frames for each sampler.")
    wait_s: float = Field(
        DEFAULT_WAIT_S, ge=0.0, description="Seconds to wait for a video that is still indexed."
    )
    format: Literal["json", "png", "svg"] | None = Field(
        None, description="Default: what the header `Accept` prefers."
    )


@dataclass(frozen=True, slots=True)
class CompareRules:
    """Bounds of requests, the same as those of answers."""

    tenant: str
    max_question_chars: int
    max_wait_s: float


@dataclass(frozen=True, slots=True)
class CompareServices:
    comparisons: Comparisons
    sampler_ids: tuple[str, ...]
    gate: OperatorGate
    rules: CompareRules


def compare_router(services: CompareServices) -> APIRouter:
    router = APIRouter(
        prefix="/v1/videos", tags=["operators"], dependencies=[Depends(services.gate)]
    )

    @router.get(
        "/{video_id}/compare",
        response_model=ComparisonDocument,
        responses={
            **documented_problems(
                OperatorKeyError,
                VideoNotFoundError,
                VideoNotReadyError,
                InvalidRequestError,
                QuestionTooLongError,
                UnknownSamplerError,
                UnreadableVideoError,
                BusyError,
                EncoderUnavailableError,
                IndexFailedError,
                UnavailableError,
            ),
            200: {"content": {MEDIA_TYPES["png"]: BINARY, MEDIA_TYPES["svg"]: BINARY}},
        },
        summary="What several samplers choose for one question, side by side",
    )
    async def get_comparison(
        video_id: VideoIdPath, query: Annotated[CompareQuery, Query()], request: Request
    ) -> Response:
        asked = _comparison(video_id, query, services)
        accepted = request.headers.get("accept", "")
        media_type = MEDIA_TYPES.get(query.format or "") or preferred(
            accepted, tuple(MEDIA_TYPES.values())
        )
        made = _reply(services.comparisons, asked, media_type)
        try:
            return await run_while_connected(request, made)
        except ClientLeftError:
            return Response(status_code=CLIENT_CLOSED_REQUEST)

    return router


async def _reply(comparisons: Comparisons, asked: ComparisonRequest, media_type: str) -> Response:
    headers = {"Cache-Control": "no-store", "Vary": "Accept"}
    if media_type == JSON:
        document = await comparisons.document(asked)
        return Response(document.model_dump_json(), media_type=JSON, headers=headers)
    wanted = next(one for one in PictureFormat if MEDIA_TYPES[one] == media_type)
    picture = await comparisons.picture(asked, wanted)
    return Response(picture, media_type=media_type, headers=headers | PICTURE_HEADERS)


def _comparison(video_id: str, query: CompareQuery, services: CompareServices) -> ComparisonRequest:
    """Validate against the deployment's bounds. Raises `RequestError`."""
    rules = services.rules
    if len(query.question) > rules.max_question_chars:
        raise QuestionTooLongError(
            f"{len(query.question)} characters; at most {rules.max_question_chars} are read."
        )
    if not query.question.strip():
        raise InvalidRequestError("`question` is blank.")
    if query.wait_s > rules.max_wait_s:
        raise InvalidRequestError(f"`wait_s` is above {rules.max_wait_s:g}.")
    return ComparisonRequest(
        tenant=rules.tenant,
        video_id=video_id,
        question=query.question,
        sampler_ids=_sampler_ids(query.samplers, services.sampler_ids),
        budget=query.budget,
        wait_s=query.wait_s,
    )


def _sampler_ids(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    ids = tuple(one.strip() for one in split_ids(text))
    for sampler_id in ids:
        if sampler_id not in known:
            raise UnknownSamplerError(
                f"There is no sampler {sampler_id!r}; known: {', '.join(known)}."
            )
    if len(set(ids)) < len(ids):
        raise InvalidRequestError("`samplers` names one of them twice.")
    if len(ids) > MAX_SAMPLERS:
        raise InvalidRequestError(f"`samplers` names {len(ids)}; at most {MAX_SAMPLERS}.")
    return ids
