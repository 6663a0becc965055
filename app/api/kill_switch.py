"""The kill switch over HTTP, for operators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from app.api.operators import OperatorGate
from app.api.problems import documented_problems
from app.api.rollout_schemas import Who, Why
from app.errors import InvalidRequestError, OperatorKeyError, UnavailableError
from flags.kill_switch import KillState, KillSwitch
from observability.logs import log_event
from observability.metrics import Metrics
from observability.names import Event

logger = logging.getLogger(__name__)


class KillSwitchRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"is_on": True, "who": "ana", "why": "answers got worse since 14:00"}]
        },
    )

    is_on: bool = Field(description="True: every next answer is by `uniform`.")
    who: Who
    why: Why


class KillSwitchDocument(BaseModel):
    is_on: bool
    who: str
    why: str
    at: str = Field(description="ISO 8601, UTC; empty when it was never set.")


class SwitchDocument(KillSwitchDocument):
    effect: str = Field(
        description="What the flags do, now or once it is off, and a rollout under it."
    )


Effect: TypeAlias = Callable[[KillState], Awaitable[str]]


def kill_switch_router(
    switch: KillSwitch, gate: OperatorGate, metrics: Metrics, effect: Effect
) -> APIRouter:
    router = APIRouter(
        prefix="/v1/kill-switch",
        tags=["operators"],
        dependencies=[Depends(gate)],
        responses=documented_problems(OperatorKeyError, InvalidRequestError, UnavailableError),
    )

    @router.get("", summary="Is the kill switch on")
    async def get_kill_switch() -> SwitchDocument:
        return await _told(switch.read(), effect)

    @router.put("", summary="Force the baseline for every answer, or let the flags decide again")
    async def put_kill_switch(body: KillSwitchRequest) -> SwitchDocument:
        try:
            state = await asyncio.to_thread(
                lambda: switch.set(is_on=body.is_on, who=body.who, why=body.why)
            )
        except OSError as exc:
            raise UnavailableError(
                f"The kill switch could not be stored ({exc.strerror}); it stands as it did."
            ) from exc
        metrics.kill_switch_is(on=state.is_on)
        log_event(
            logger,
            Event.KILL_SWITCH_CHANGED,
            level=logging.WARNING,
            is_on=state.is_on,
            who=state.who,
            why=state.why,
        )
        return await _told(state, effect)

    return router


async def _told(state: KillState, effect: Effect) -> SwitchDocument:
    document = kill_switch_document(state)
    return SwitchDocument(**document.model_dump(), effect=await effect(state))


def kill_switch_document(state: KillState) -> KillSwitchDocument:
    return KillSwitchDocument(is_on=state.is_on, who=state.who, why=state.why, at=state.at)
