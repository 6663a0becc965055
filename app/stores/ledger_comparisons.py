"""Shadow comparisons in the ledger. Each function works in its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, RowMapping, select

from app.stores.ledger_deletion import kept_records
from app.stores.ledger_schema import comparisons, insert_new
from shadow.records import ComparisonKind, ComparisonRecord, SideRecord

PLAIN_FIELDS = tuple(
    field.name
    for field in fields(ComparisonRecord)
    if field.name not in {"kind", "control", "shadow"}
)
SIDE = TypeAdapter(SideRecord)


def put_comparisons(connection: Connection, records: Sequence[ComparisonRecord]) -> None:
    """Those whose `comparison_id` has a row already are left out."""
    rows = [_row(record) for record in kept_records(connection, records)]
    insert_new(connection, comparisons, rows)


def _row(record: ComparisonRecord) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in PLAIN_FIELDS}
    return row | {
        "kind": record.kind,
        "control_sampler_id": record.control.sampler_id,
        "control": SIDE.dump_python(record.control),
        "shadow_sampler_id": record.shadow.sampler_id,
        "shadow": SIDE.dump_python(record.shadow),
    }


def comparisons_between(
    connection: Connection,
    since_s: float,
    until_s: float,
    shadow_sampler: str | None,
    limit: int,
) -> list[ComparisonRecord]:
    query = select(comparisons).where(
        comparisons.c.created_s >= since_s, comparisons.c.created_s < until_s
    )
    if shadow_sampler is not None:
        query = query.where(comparisons.c.shadow_sampler_id == shadow_sampler)
    newest = (comparisons.c.created_s.desc(), comparisons.c.comparison_id.desc())
    rows = connection.execute(query.order_by(*newest).limit(limit)).mappings().all()
    return [_record(row) for row in reversed(rows)]


def _record(row: RowMapping) -> ComparisonRecord:
    return ComparisonRecord(
        **{name: row[name] for name in PLAIN_FIELDS},
        kind=ComparisonKind(row["kind"]),
        control=SideRecord(**row["control"]),
        shadow=SideRecord(**row["shadow"]),
    )
