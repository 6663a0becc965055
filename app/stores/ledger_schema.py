"""Tables of the ledger, for SQLite and PostgreSQL alike: docs/ledger.md explains each column.

The migrations (`app/stores/migrations`) make what the database holds; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Dialect,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

UNHOLDABLE = re.compile("[\x00\ud800-\udfff]")
"""NUL and lone surrogates."""


class CleanText(TypeDecorator[str]):
    """Text that both databases can hold: PostgreSQL has no NUL, and neither has lone surrogates.

    Callers may send either in a question; each becomes U+FFFD.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        if value is None:
            return None
        return UNHOLDABLE.sub("\ufffd", value)


Serial = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only where the type is exactly INTEGER."""

metadata = MetaData()

selections = Table(
    "selections",
    metadata,
    Column("sequence", Serial, primary_key=True, autoincrement=True),
    Column("answer_id", CleanText, nullable=False),
    Column("tenant", CleanText, nullable=False),
    Column("video_id", CleanText, nullable=False),
    Column("user_hash", CleanText),
    Column("created_s", Double, nullable=False),
    Column("decided_sampler_id", CleanText, nullable=False),
    Column("decided_sampler_version", CleanText),
    Column("variant", CleanText),
    Column("reason", CleanText, nullable=False),
    Column("flag_version", CleanText),
    Column("salt", CleanText),
    Column("engine_version", CleanText, nullable=False),
    Column("is_exposure", Boolean, nullable=False),
    Column("flag_error", CleanText),
    Column("sampler_id", CleanText, nullable=False),
    Column("sampler_version", CleanText, nullable=False),
    Column("sampler_options", JSON, nullable=False),
    Column("fallback_kind", CleanText),
    Column("fallback_message", CleanText),
    Column("encoder_id", CleanText, nullable=False),
    Column("decode_version", CleanText, nullable=False),
    Column("detector_version", CleanText, nullable=False),
    Column("fps", Double, nullable=False),
    Column("budget", Integer, nullable=False),
    Column("limited_by", CleanText, nullable=False),
    Column("reducer_id", CleanText, nullable=False),
    Column("profile", CleanText, nullable=False),
    Column("llm_id", CleanText, nullable=False),
    Column("video_seconds", Double, nullable=False),
    Column("indices", JSON, nullable=False),
    Column("vision_tokens_before", Integer, nullable=False),
    Column("vision_tokens_after", Integer, nullable=False),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("latency_s", JSON, nullable=False),
    Column("encoder_device_s", Double, nullable=False),
    Column("model_calls", Integer, nullable=False),
    Column("state", CleanText, nullable=False),
    Column("error", CleanText),
    # Both also stand in `latency_s`; guards read them by the ten thousand.
    Column("selection_s", Double),
    Column("total_s", Double, nullable=False),
    UniqueConstraint("answer_id", "video_id", name="selections_of_answer"),
    CheckConstraint("state IN ('done', 'failed', 'cancelled')", name="selections_state"),
    Index("selections_by_age", "created_s"),
    Index("selections_by_user", "user_hash"),
    Index("selections_by_video", "tenant", "video_id"),
    Index("selections_exposed", "salt", "sequence"),
    sqlite_autoincrement=True,
)

feedback = Table(
    "feedback",
    metadata,
    Column("sequence", Serial, primary_key=True, autoincrement=True),
    Column("answer_id", CleanText, nullable=False, unique=True),
    Column("tenant", CleanText, nullable=False),
    Column("video_id", CleanText, nullable=False),
    Column("verdict", CleanText, nullable=False),
    Column("reason", CleanText, nullable=False),
    Column("created_s", Double, nullable=False),
    CheckConstraint("verdict IN ('good', 'bad')", name="feedback_verdict"),
    Index("feedback_by_age", "created_s"),
    Index("feedback_by_video", "tenant", "video_id"),
    sqlite_autoincrement=True,
)

comparisons = Table(
    "comparisons",
    metadata,
    Column("comparison_id", CleanText, primary_key=True),
    Column("answer_id", CleanText, nullable=False),
    Column("tenant", CleanText, nullable=False),
    Column("video_id", CleanText, nullable=False),
    Column("user_hash", CleanText),
    Column("created_s", Double, nullable=False),
    Column("kind", CleanText, nullable=False),
    Column("question", CleanText, nullable=False),
    Column("flag_version", CleanText),
    Column("encoder_id", CleanText, nullable=False),
    Column("llm_id", CleanText, nullable=False),
    Column("profile", CleanText, nullable=False),
    Column("reducer_id", CleanText, nullable=False),
    Column("budget", Integer, nullable=False),
    Column("video_seconds", Double, nullable=False),
    Column("num_candidates", Integer, nullable=False),
    # The two ids also stand in the documents beside them; the report selects by them.
    Column("control_sampler_id", CleanText, nullable=False),
    Column("control", JSON, nullable=False),
    Column("shadow_sampler_id", CleanText, nullable=False),
    Column("shadow", JSON, nullable=False),
    Column("overlap_exact", Double),
    Column("overlap_within", Double),
    Column("tolerance_s", Double, nullable=False),
    Column("temporal_distance_s", Double),
    Column("answers_agree", Double),
    Column("agreement_method", CleanText),
    Index("comparisons_by_age", "created_s"),
    Index("comparisons_by_answer", "answer_id"),
    Index("comparisons_by_user", "user_hash"),
    Index("comparisons_by_video", "tenant", "video_id"),
)

deletions = Table(
    "deletions",
    metadata,
    # What was queued, or still ran, while its user or video was deleted must not come back.
    Column("subject", CleanText, primary_key=True),
    Column("at_s", Double, nullable=False),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("rollout_id", CleanText, primary_key=True),
    Column("candidate", CleanText, nullable=False),
    Column("control", CleanText, nullable=False),
    Column("state", CleanText, nullable=False),
    Column("is_active", Boolean, nullable=False),
    Column("started_s", Double, nullable=False),
    Column("changed_s", Double, nullable=False),
    Column("rollout", JSON, nullable=False),
    # One flag file, so one rollout at a time, whatever two operators send at once.
    Index(
        "rollouts_one_active",
        "is_active",
        unique=True,
        sqlite_where=text("is_active"),
        postgresql_where=text("is_active"),
    ),
)

rollout_steps = Table(
    "rollout_steps",
    metadata,
    # Triggers refuse UPDATE and DELETE: it is the audit log.
    Column("rollout_id", CleanText, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("kind", CleanText, nullable=False),
    Column("who", CleanText, nullable=False),
    Column("why", CleanText, nullable=False),
    Column("at_s", Double, nullable=False),
    Column("old_weight", Integer),
    Column("new_weight", Integer, nullable=False),
    Column("stage", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("salt", CleanText, nullable=False),
    Column("flag_digest_before", CleanText, nullable=False),
    Column("flag_digest_after", CleanText, nullable=False),
    Column("evidence", JSON, nullable=False),
    PrimaryKeyConstraint("rollout_id", "sequence", name="rollout_steps_key"),
)

intents = Table(
    "intents",
    metadata,
    # At most one row: there is one flag file.
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("rollout_id", CleanText, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("intent", JSON, nullable=False),
    CheckConstraint("slot = 1", name="intents_slot"),
)

offline_scores = Table(
    "offline_scores",
    metadata,
    Column("sequence", Serial, primary_key=True, autoincrement=True),
    Column("sampler_id", CleanText, nullable=False),
    Column("sampler_version", CleanText),
    Column("score", Double, nullable=False),
    Column("dataset", CleanText, nullable=False),
    Column("num_questions", Integer, nullable=False),
    Column("who", CleanText, nullable=False),
    Column("why", CleanText, nullable=False),
    Column("at_s", Double, nullable=False),
    sqlite_autoincrement=True,
)

leases = Table(
    "leases",
    metadata,
    Column("name", CleanText, primary_key=True),
    Column("holder", CleanText, nullable=False),
    Column("expires_s", Double, nullable=False),
)


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows whose keys the table does not hold yet: a second time changes nothing."""
    if not rows:
        return
    is_postgresql = connection.dialect.name == "postgresql"
    construct = postgresql.insert if is_postgresql else sqlite.insert
    connection.execute(construct(table).on_conflict_do_nothing(), rows)
