"""Rollouts, steps, intents, offline scores and leases. Each works in its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, RowMapping, delete, func, insert, select, text, update

from app.stores.ledger_rows import OfflineScore
from app.stores.ledger_schema import (
    insert_new,
    intents,
    leases,
    offline_scores,
    rollout_steps,
    rollouts,
)
from flags.rollout_plan import IntentRecord, Rollout, RolloutState, RolloutStep, StepKind

ACTIVE = frozenset({RolloutState.RUNNING, RolloutState.PAUSED})
STEP_FIELDS = tuple(field.name for field in fields(RolloutStep))
SCORE_FIELDS = tuple(field.name for field in fields(OfflineScore))
ROLLOUT = TypeAdapter(Rollout)
INTENT = TypeAdapter(IntentRecord)
CLOCKS = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}
"""Seconds since the epoch by the database's clock, which all its users share."""


class RolloutConflictError(Exception):
    """Somebody else took this step, or runs another rollout; nothing was changed."""


def save_rollout(connection: Connection, rollout: Rollout, step: RolloutStep) -> None:
    last = select(func.max(rollout_steps.c.sequence)).where(
        rollout_steps.c.rollout_id == rollout.rollout_id
    )
    expected = (connection.scalar(last) or 0) + 1
    if step.sequence != expected or step.rollout_id != rollout.rollout_id:
        raise RolloutConflictError(
            f"Step {step.sequence} of rollout {rollout.rollout_id} cannot be appended: the next "
            f"one is {expected}."
        )
    if rollout.state in ACTIVE:
        _refuse_a_second(connection, rollout)
    connection.execute(insert(rollout_steps), _step_row(step))
    _put_rollout(connection, rollout, step.at_s)


def _refuse_a_second(connection: Connection, rollout: Rollout) -> None:
    other = select(rollouts.c.rollout_id).where(
        rollouts.c.is_active, rollouts.c.rollout_id != rollout.rollout_id
    )
    running = connection.scalar(other)
    if running is not None:
        raise RolloutConflictError(f"Rollout {running} has not ended yet.")


def _put_rollout(connection: Connection, rollout: Rollout, at_s: float) -> None:
    values: dict[str, Any] = {
        "candidate": rollout.plan.candidate,
        "control": rollout.plan.control,
        "state": rollout.state,
        "is_active": rollout.state in ACTIVE,
        "changed_s": at_s,
        "rollout": ROLLOUT.dump_python(rollout, mode="json"),
    }
    new = values | {"rollout_id": rollout.rollout_id, "started_s": at_s}
    insert_new(connection, rollouts, [new])
    is_this = rollouts.c.rollout_id == rollout.rollout_id
    connection.execute(update(rollouts).where(is_this).values(values))


def _step_row(step: RolloutStep) -> dict[str, Any]:
    row = {name: getattr(step, name) for name in STEP_FIELDS}
    return row | {"evidence": dict(step.evidence)}


def find_rollout(connection: Connection, rollout_id: str) -> Rollout | None:
    query = select(rollouts.c.rollout).where(rollouts.c.rollout_id == rollout_id)
    return _one_rollout(connection.scalar(query))


def active_rollout(connection: Connection) -> Rollout | None:
    return _one_rollout(connection.scalar(select(rollouts.c.rollout).where(rollouts.c.is_active)))


def _one_rollout(document: object) -> Rollout | None:
    return None if document is None else ROLLOUT.validate_python(document)


def list_rollouts(connection: Connection) -> list[Rollout]:
    newest = (rollouts.c.started_s.desc(), rollouts.c.rollout_id.desc())
    documents = connection.scalars(select(rollouts.c.rollout).order_by(*newest))
    return [ROLLOUT.validate_python(document) for document in documents]


def steps_of(connection: Connection, rollout_id: str) -> list[RolloutStep]:
    query = select(rollout_steps).where(rollout_steps.c.rollout_id == rollout_id)
    rows = connection.execute(query.order_by(rollout_steps.c.sequence)).mappings()
    return [_step(row) for row in rows]


def _step(row: RowMapping) -> RolloutStep:
    values = {name: row[name] for name in STEP_FIELDS}
    return RolloutStep(**values | {"kind": StepKind(row["kind"])})


def put_intent(connection: Connection, intent: IntentRecord) -> None:
    if open_intent(connection) is not None:
        raise RolloutConflictError("Another edit of the flag file is under way.")
    connection.execute(
        insert(intents),
        {
            "slot": 1,
            "rollout_id": intent.step.rollout_id,
            "sequence": intent.step.sequence,
            "intent": INTENT.dump_python(intent, mode="json"),
        },
    )


def open_intent(connection: Connection) -> IntentRecord | None:
    document = connection.scalar(select(intents.c.intent))
    return None if document is None else INTENT.validate_python(document)


def close_intent(connection: Connection) -> None:
    connection.execute(delete(intents))


def put_offline_score(connection: Connection, score: OfflineScore) -> None:
    connection.execute(insert(offline_scores), asdict(score))


def list_offline_scores(
    connection: Connection, sampler_ids: Sequence[str] | None
) -> list[OfflineScore]:
    query = select(offline_scores).order_by(offline_scores.c.sequence)
    if sampler_ids is not None:
        query = query.where(offline_scores.c.sampler_id.in_(sampler_ids))
    rows = connection.execute(query).mappings()
    return [OfflineScore(**{name: row[name] for name in SCORE_FIELDS}) for row in rows]


def take_lease(connection: Connection, name: str, holder: str, ttl_s: float) -> bool:
    now_s = float(connection.scalar(text(CLOCKS[connection.dialect.name])) or 0.0)
    lease = {"name": name, "holder": holder, "expires_s": now_s + ttl_s}
    insert_new(connection, leases, [lease])
    is_free = (leases.c.holder == holder) | (leases.c.expires_s <= now_s)
    renewal = update(leases).where(leases.c.name == name, is_free).values(lease)
    return connection.execute(renewal).rowcount == 1


def release_lease(connection: Connection, name: str, holder: str) -> None:
    is_mine = (leases.c.name == name) & (leases.c.holder == holder)
    connection.execute(delete(leases).where(is_mine))
