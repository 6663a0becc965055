"""Staged rollouts over HTTP, for operators. No decisions here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from fastapi import APIRouter, Depends

from app.api.operators import OperatorGate
from app.api.problems import documented_problems
from app.api.rollout_schemas import (
    CommandBody,
    HistoryDocument,
    RollbackBody,
    RolloutDocument,
    RolloutListing,
    StartBody,
    rollout_document,
    step_document,
    summary_document,
)
from app.errors import (
    FlagFileUnusableError,
    InvalidRequestError,
    LedgerUnavailableError,
    OperatorKeyError,
    RolloutNotFoundError,
    RolloutNotPossibleError,
)
from app.rollout_side import RolloutSide
from app.stores.ledger_rollouts import RolloutConflictError
from flags.flag_edit import UneditableFlagsError, read_serving
from flags.keys import BASELINE
from flags.rollout_changes import By, serving_text
from flags.rollout_needs import NoSuchRolloutError, RolloutRefusedError
from flags.rollout_plan import RolloutState, RolloutStep
from flags.rollout_text import outlook

ACTIVE = frozenset({RolloutState.RUNNING, RolloutState.PAUSED})

P = ParamSpec("P")
T = TypeVar("T")


def rollouts_router(side: RolloutSide, gate: OperatorGate) -> APIRouter:
    router = APIRouter(
        prefix="/v1/rollouts",
        tags=["operators"],
        dependencies=[Depends(gate)],
        responses=documented_problems(
            OperatorKeyError,
            RolloutNotFoundError,
            RolloutNotPossibleError,
            FlagFileUnusableError,
            InvalidRequestError,
            LedgerUnavailableError,
        ),
    )
    desk = RolloutDesk(side)
    _add_reading(router, desk, side)
    _add_start(router, desk, side)
    _add_commands(router, desk, side)
    return router


def _add_start(router: APIRouter, desk: RolloutDesk, side: RolloutSide) -> None:
    @router.post("", status_code=201, summary="Deal the first stage's users to a candidate")
    async def start_rollout(body: StartBody) -> RolloutDocument:
        await side.facts.refresh()
        by = By(body.who, body.why)
        return await desk.told(await desk.call(side.controller.start, body.request(), by))


def _add_reading(router: APIRouter, desk: RolloutDesk, side: RolloutSide) -> None:
    @router.get("", summary="All rollouts, the newest first")
    async def list_rollouts() -> RolloutListing:
        rollouts = await desk.call(side.ledger.list_rollouts)
        return RolloutListing(rollouts=[summary_document(rollout) for rollout in rollouts])

    @router.get("/{rollout_id}", summary="Where it stands, what the guards say, what comes next")
    async def get_rollout(rollout_id: str) -> RolloutDocument:
        return await desk.call(desk.document, rollout_id)

    @router.get("/{rollout_id}/history", summary="The audit log: every step, with its evidence")
    async def get_history(rollout_id: str) -> HistoryDocument:
        await desk.call(side.controller.find, rollout_id)
        steps = await desk.call(side.ledger.rollout_steps, rollout_id)
        return HistoryDocument(steps=[step_document(step) for step in steps])


def _add_commands(router: APIRouter, desk: RolloutDesk, side: RolloutSide) -> None:
    controller = side.controller

    @router.post("/{rollout_id}/advance", summary="To the next stage now; after the last, to all")
    async def advance_rollout(rollout_id: str, body: CommandBody) -> RolloutDocument:
        by = By(body.who, body.why)
        return await desk.told(await desk.call(controller.advance, rollout_id, by))

    @router.post("/{rollout_id}/pause", summary="Keep the weights until it is resumed")
    async def pause_rollout(rollout_id: str, body: CommandBody) -> RolloutDocument:
        by = By(body.who, body.why)
        return await desk.told(await desk.call(controller.pause, rollout_id, by))

    @router.post("/{rollout_id}/resume", summary="Go on after a pause")
    async def resume_rollout(rollout_id: str, body: CommandBody) -> RolloutDocument:
        by = By(body.who, body.why)
        return await desk.told(await desk.call(controller.resume, rollout_id, by))

    @router.post("/{rollout_id}/rollback", summary="Everyone gets the control; the next answer too")
    async def roll_back_rollout(rollout_id: str, body: RollbackBody) -> RolloutDocument:
        by = By(body.who, body.why)
        step = await desk.call(controller.rollback, rollout_id, by, to=body.to)
        return await desk.told(step)


class RolloutDesk:
    """Calls the controller off the event loop, and says what its errors mean to a caller."""

    def __init__(self, side: RolloutSide) -> None:
        self._side = side

    async def call(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await self._side.calls.run(call, *args, **kwargs)
        except NoSuchRolloutError as exc:
            raise RolloutNotFoundError(str(exc)) from exc
        except RolloutRefusedError as exc:
            raise RolloutNotPossibleError(*exc.reasons) from exc
        except RolloutConflictError as exc:
            raise RolloutNotPossibleError(str(exc)) from exc
        except UneditableFlagsError as exc:
            raise FlagFileUnusableError(str(exc)) from exc

    async def told(self, step: RolloutStep) -> RolloutDocument:
        """Log and count a step that a command took; the rollout as it stands now."""
        self._side.telemetry.step_taken(step)
        active = await self.call(self._side.ledger.active_rollout)
        self._side.telemetry.stands(active)
        return await self.call(self.document, step.rollout_id)

    def document(self, rollout_id: str) -> RolloutDocument:
        """Blocks: the guards are judged anew. Raises `NoSuchRolloutError`."""
        side = self._side
        rollout = side.controller.find(rollout_id)
        steps = side.ledger.rollout_steps(rollout_id)
        report = side.controller.judge(rollout) if rollout.state in ACTIVE else None
        flags = side.controller.flags_now(rollout)
        ahead = outlook(rollout, report, flags, time.time())
        return rollout_document(rollout, steps, report, ahead, self._flags_text())

    def _flags_text(self) -> str:
        side = self._side
        try:
            text = serving_text(read_serving(side.editor.read(), side.table.ids))
        except UneditableFlagsError as exc:
            text = f"The flag file cannot be used: {exc} {self._in_force()}"
        if side.kill_switch.read().is_on:
            return f"The kill switch is on, everyone gets `{BASELINE}`. But for that: {text}"
        return text

    def _in_force(self) -> str:
        flag_file = self._side.flag_file
        flag_file.refresh()
        if flag_file.version is None:
            return (
                "This gateway has read no good flags since it started: everyone gets "
                f"`{BASELINE}`, for the reason ERROR."
            )
        return f"The flags that were good last stay in force (version {flag_file.version})."
