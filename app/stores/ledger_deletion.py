"""What leaves the ledger: by user, by video, by age. Each works in its caller's transaction.

A deletion leaves a note for a day, so that a record of an answer that was queued, or still ran,
does not come back after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Delete, Table, delete, select

from app.stores.ledger_rows import RecordCounts
from app.stores.ledger_schema import comparisons, deletions, feedback, insert_new, selections

NOTE_KEPT_S = 86_400.0
"""Longer than any answer or shadow run lives."""


class Deletable(Protocol):
    """A record of something that one user asked about one video."""

    @property
    def tenant(self) -> str: ...
    @property
    def video_id(self) -> str: ...
    @property
    def created_s(self) -> float: ...


RecordT = TypeVar("RecordT", bound=Deletable)


def kept_records(connection: Connection, records: Sequence[RecordT]) -> list[RecordT]:
    """Without those whose user or video was deleted since they were made."""
    rows = connection.execute(select(deletions.c.subject, deletions.c.at_s))
    deleted = {row.subject: row.at_s for row in rows}
    return [record for record in records if not _is_deleted(record, deleted)]


def _is_deleted(record: Deletable, deleted: dict[str, float]) -> bool:
    subjects = [_video(record.tenant, record.video_id)]
    user_hash = getattr(record, "user_hash", None)
    if user_hash is not None:
        subjects.append(_user(user_hash))
    return any(record.created_s <= deleted.get(subject, -1.0) for subject in subjects)


def _user(user_hash: str) -> str:
    return f"user:{user_hash}"


def _video(tenant: str, video_id: str) -> str:
    return f"video:{video_id}:{tenant}"


def answers_of_user(connection: Connection, user_hash: str) -> list[str]:
    query = select(selections.c.answer_id).where(selections.c.user_hash == user_hash)
    return list(connection.scalars(query.distinct()))


def delete_user(connection: Connection, user_hash: str, now_s: float) -> RecordCounts:
    of_user = select(selections.c.answer_id).where(selections.c.user_hash == user_hash)
    _note(connection, _user(user_hash), now_s)
    return _delete(
        connection,
        selections.c.user_hash == user_hash,
        comparisons.c.user_hash == user_hash,
        feedback.c.answer_id.in_(of_user),
    )


def delete_video(connection: Connection, tenant: str, video_id: str, now_s: float) -> RecordCounts:
    _note(connection, _video(tenant, video_id), now_s)
    of_selections, of_comparisons, of_feedback = (
        (table.c.tenant == tenant) & (table.c.video_id == video_id)
        for table in (selections, comparisons, feedback)
    )
    return _delete(connection, of_selections, of_comparisons, of_feedback)


def _note(connection: Connection, subject: str, now_s: float) -> None:
    connection.execute(delete(deletions).where(deletions.c.subject == subject))
    insert_new(connection, deletions, [{"subject": subject, "at_s": now_s}])


def _delete(
    connection: Connection,
    of_selections: ColumnElement[bool],
    of_comparisons: ColumnElement[bool],
    of_feedback: ColumnElement[bool],
) -> RecordCounts:
    # Feedback first: it is found by the answers of the selections.
    num_feedback = connection.execute(delete(feedback).where(of_feedback)).rowcount
    return RecordCounts(
        selections=connection.execute(delete(selections).where(of_selections)).rowcount,
        comparisons=connection.execute(delete(comparisons).where(of_comparisons)).rowcount,
        feedback=num_feedback,
    )


def delete_older(connection: Connection, before_s: float, limit: int, now_s: float) -> RecordCounts:
    """At most `limit` rows of each table, oldest first."""
    connection.execute(delete(deletions).where(deletions.c.at_s < now_s - NOTE_KEPT_S))
    counts = [
        connection.execute(_oldest_deleted(table, before_s, limit)).rowcount
        for table in (selections, comparisons, feedback)
    ]
    return RecordCounts(selections=counts[0], comparisons=counts[1], feedback=counts[2])


def _oldest_deleted(table: Table, before_s: float, limit: int) -> Delete:
    [key] = table.primary_key
    is_old = table.c.created_s < before_s
    oldest = select(key).where(is_old).order_by(table.c.created_s).limit(limit)
    return delete(table).where(key.in_(oldest))
