"""Selections and feedback in the ledger. Each function works in its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select

from app.stores.ledger_deletion import kept_records
from app.stores.ledger_rows import (
    Exposure,
    FeedbackChange,
    FeedbackRecord,
    FeedbackVerdict,
    SelectionRecord,
)
from app.stores.ledger_schema import feedback, insert_new, selections
from observability.names import Stage

SELECTION_FIELDS = tuple(field.name for field in fields(SelectionRecord))
FEEDBACK_FIELDS = tuple(field.name for field in fields(FeedbackRecord))
EXPOSURE_COLUMNS = tuple(
    selections.c[field.name] for field in fields(Exposure) if field.name in selections.c
)


def put_selections(connection: Connection, records: Sequence[SelectionRecord]) -> None:
    """Those of an (answer, video) that has a row already are left out."""
    rows = [_selection_row(record) for record in kept_records(connection, records)]
    insert_new(connection, selections, rows)


def _selection_row(record: SelectionRecord) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in SELECTION_FIELDS}
    return row | {
        "sampler_options": dict(record.sampler_options),
        "indices": list(record.indices),
        "latency_s": dict(record.latency_s),
        "selection_s": record.latency_s.get(Stage.SELECT_FRAMES),
        "total_s": record.latency_s.get("total", 0.0),
    }


def selections_of(connection: Connection, answer_id: str) -> list[SelectionRecord]:
    query = select(selections).where(selections.c.answer_id == answer_id)
    rows = connection.execute(query.order_by(selections.c.sequence)).mappings()
    return [SelectionRecord(**{name: row[name] for name in SELECTION_FIELDS}) for row in rows]


def exposures_after(connection: Connection, sequence: int, salt: str, limit: int) -> list[Exposure]:
    query = (
        select(*EXPOSURE_COLUMNS, selections.c.vision_tokens_after, feedback.c.verdict)
        .outerjoin_from(selections, feedback, selections.c.answer_id == feedback.c.answer_id)
        .where(
            selections.c.salt == salt,
            selections.c.sequence > sequence,
            selections.c.is_exposure,
            selections.c.user_hash.is_not(None),
        )
        .order_by(selections.c.sequence)
        .limit(limit)
    )
    return [_exposure(row) for row in connection.execute(query).mappings()]


def _exposure(row: RowMapping) -> Exposure:
    verdict = row["verdict"]
    return Exposure(
        **{column.name: row[column.name] for column in EXPOSURE_COLUMNS},
        vision_tokens=row["vision_tokens_after"],
        feedback=None if verdict is None else FeedbackVerdict(verdict),
    )


def put_feedback(connection: Connection, record: FeedbackRecord) -> None:
    """Replaces what was said of the answer before, under a new sequence number."""
    if kept_records(connection, [record]):
        connection.execute(delete(feedback).where(feedback.c.answer_id == record.answer_id))
        row = {name: getattr(record, name) for name in FEEDBACK_FIELDS}
        connection.execute(insert(feedback), row)


def feedback_of(connection: Connection, answer_id: str) -> FeedbackRecord | None:
    query = select(feedback).where(feedback.c.answer_id == answer_id)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    values = {name: row[name] for name in FEEDBACK_FIELDS}
    return FeedbackRecord(**values | {"verdict": FeedbackVerdict(row["verdict"])})


def feedback_after(
    connection: Connection, sequence: int, salt: str, limit: int
) -> list[FeedbackChange]:
    query = (
        select(feedback)
        .join(selections, selections.c.answer_id == feedback.c.answer_id)
        .where(feedback.c.sequence > sequence, selections.c.salt == salt)
        .order_by(feedback.c.sequence)
        .limit(limit)
    )
    return [
        FeedbackChange(
            sequence=row.sequence,
            answer_id=row.answer_id,
            verdict=FeedbackVerdict(row.verdict),
            created_s=row.created_s,
        )
        for row in connection.execute(query)
    ]
