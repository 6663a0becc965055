"""What the flags do once the kill switch is off, and the rollout under it: told by the switch."""

from __future__ import annotations

import asyncio
from typing import Final

from app.errors import LedgerUnavailableError
from app.rollout_side import RolloutSide
from flags.flag_edit import Serving, UneditableFlagsError, read_serving
from flags.kill_switch import KillState
from flags.rollout_changes import serving_text
from flags.rollout_plan import Rollout, RolloutState

LEDGER_S: Final = 2.0
"""The switch was set already; nobody waits for a ledger that hangs to be told so."""
_ROLLBACK: Final = "`framegate rollout rollback`"


async def switch_effect(side: RolloutSide, state: KillState) -> str:
    """Never raises: the switch works without ledger and flag file."""
    serving, flags_text = await asyncio.to_thread(_flags, side)
    try:
        async with asyncio.timeout(LEDGER_S):
            rollout = await side.calls.run(side.ledger.active_rollout)
    except (LedgerUnavailableError, TimeoutError):
        rollout_text = "The ledger does not answer, so that nobody can tell of a rollout."
    else:
        rollout_text = "" if rollout is None else _rollout_text(rollout, serving, state)
    flags_text = f"Once it is off: {flags_text}" if state.is_on else flags_text
    return f"{flags_text} {rollout_text}".strip()


def _flags(side: RolloutSide) -> tuple[Serving | None, str]:
    try:
        serving = read_serving(side.editor.read(), side.table.ids)
    except UneditableFlagsError as exc:
        return None, f"The flag file cannot be used: {exc}"
    return serving, serving_text(serving)


def _rollout_text(rollout: Rollout, serving: Serving | None, state: KillState) -> str:
    name = f"Rollout {rollout.rollout_id}"
    if serving is None or rollout.plan.candidate not in serving.samplers:
        return f"{name} is not in it: {_ROLLBACK} ends the rollout."
    candidate = f"`{rollout.plan.candidate}`"
    if state.is_on:
        pauses = "pauses" if rollout.state is RolloutState.RUNNING else "stays paused"
        return (
            f"{name} {pauses}, and its users get {candidate} again as soon as the switch is off: "
            f"{_ROLLBACK} before that, if it is not wanted."
        )
    return (
        f"{name} is {rollout.state} with {rollout.weight} % of the users, who get {candidate} "
        f"again from now on: {_ROLLBACK} if that is not wanted, else "
        "`framegate rollout resume`, which deals the users anew."
    )
