"""What is kept of a user, over HTTP, for operators. No decisions here."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from app.api.operators import OperatorGate
from app.api.problems import documented_problems
from app.errors import InvalidRequestError, LedgerUnavailableError, OperatorKeyError
from app.ledger_calls import LedgerCalls
from app.ledger_deletion import UserDeletion
from observability.logs import log_event
from observability.names import Event

logger = logging.getLogger(__name__)


class DeletedRecordsDocument(BaseModel):
    answers: int = Field(description="Stored answers, with their questions.")
    selections: int = Field(description="Rows of the ledger.")
    comparisons: int = Field(description="Rows of the ledger.")
    feedback: int = Field(description="Rows of the ledger.")


@dataclass(frozen=True, slots=True)
class UserServices:
    tenant: str
    deletion: UserDeletion
    calls: LedgerCalls
    gate: OperatorGate


def users_router(services: UserServices) -> APIRouter:
    router = APIRouter(
        prefix="/v1/users", tags=["operators"], dependencies=[Depends(services.gate)]
    )

    # A path: user ids may hold slashes.
    @router.delete(
        "/{user_id:path}/records",
        responses=documented_problems(
            OperatorKeyError, InvalidRequestError, LedgerUnavailableError
        ),
        summary="Delete what is kept of a user: answers, ledger rows, feedback",
    )
    async def delete_records(user_id: str) -> DeletedRecordsDocument:
        deleted = await services.calls.run(services.deletion.delete, services.tenant, user_id)
        document = DeletedRecordsDocument(
            answers=deleted.answers,
            selections=deleted.rows.selections,
            comparisons=deleted.rows.comparisons,
            feedback=deleted.rows.feedback,
        )
        log_event(logger, Event.RECORDS_DELETED, level=logging.WARNING, **document.model_dump())
        return document

    return router
