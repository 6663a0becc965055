"""Feedback on an answer, over HTTP. No decisions here."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from app.api.problems import documented_problems
from app.errors import AnswerNotFoundError, InvalidRequestError, LedgerUnavailableError
from app.ledger_calls import LedgerCalls
from app.stores.catalogue import Catalogue
from app.stores.ledger import Ledger
from app.stores.ledger_rows import FeedbackRecord, FeedbackVerdict


class FeedbackRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"verdict": "bad", "reason": "there is no dog"}]},
    )

    verdict: FeedbackVerdict = Field(description="good or bad.")
    reason: str = Field("", max_length=1000, description="Why, in the user's words.")


class FeedbackDocument(BaseModel):
    answer_id: str
    verdict: FeedbackVerdict
    reason: str
    created: str = Field(description="ISO 8601, UTC.")


@dataclass(frozen=True, slots=True)
class FeedbackServices:
    tenant: str
    catalogue: Catalogue
    ledger: Ledger
    calls: LedgerCalls


def feedback_router(services: FeedbackServices) -> APIRouter:
    router = APIRouter(prefix="/v1/answers", tags=["answers"])

    @router.post(
        "/{answer_id}/feedback",
        responses=documented_problems(
            AnswerNotFoundError, InvalidRequestError, LedgerUnavailableError
        ),
        summary="Say whether an answer was good; the last word counts",
    )
    async def post_feedback(answer_id: str, body: FeedbackRequest) -> FeedbackDocument:
        answer = await asyncio.to_thread(services.catalogue.get_answer, services.tenant, answer_id)
        record = FeedbackRecord(
            answer_id=answer.answer_id,
            tenant=answer.tenant,
            video_id=answer.video_id,
            verdict=body.verdict,
            reason=body.reason,
            created_s=time.time(),
        )
        await services.calls.run(services.ledger.put_feedback, record)
        return feedback_document(record)

    return router


def feedback_document(record: FeedbackRecord) -> FeedbackDocument:
    created = datetime.fromtimestamp(record.created_s, UTC).isoformat(timespec="milliseconds")
    return FeedbackDocument(
        answer_id=record.answer_id,
        verdict=record.verdict,
        reason=record.reason,
        created=created.replace("+00:00", "Z"),
    )
