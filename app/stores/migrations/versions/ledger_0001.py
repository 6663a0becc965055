"""The first ledger: selections, feedback, comparisons, rollouts and their append-only steps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

SQLITE_TRIGGERS = (
    """
    CREATE TRIGGER rollout_steps_keep BEFORE UPDATE ON rollout_steps
    BEGIN SELECT RAISE(ABORT, 'rollout_steps is append-only'); END
    """,
    """
    CREATE TRIGGER rollout_steps_stay BEFORE DELETE ON rollout_steps
    BEGIN SELECT RAISE(ABORT, 'rollout_steps is append-only'); END
    """,
    # INSERT OR REPLACE deletes without asking the trigger above.
    """
    CREATE TRIGGER rollout_steps_once BEFORE INSERT ON rollout_steps
    WHEN EXISTS (
        SELECT 1 FROM rollout_steps
        WHERE rollout_id = NEW.rollout_id AND sequence = NEW.sequence
    )
    BEGIN SELECT RAISE(ABORT, 'rollout_steps is append-only'); END
    """,
)
POSTGRESQL_TRIGGERS = (
    """
    CREATE FUNCTION rollout_steps_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'rollout_steps is append-only'; END $$
    """,
    """
    CREATE TRIGGER rollout_steps_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON rollout_steps
    FOR EACH STATEMENT EXECUTE FUNCTION rollout_steps_refuse()
    """,
)


def upgrade() -> None:
    _create_selections()
    _create_feedback()
    _create_comparisons()
    _create_deletions()
    _create_rollouts()
    _create_rollout_steps()
    _create_intents()
    _create_offline_scores()
    _create_leases()
    _guard_rollout_steps()


def _create_selections() -> None:
    op.create_table(
        "selections",
        sa.Column("sequence", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("answer_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("video_id", sa.Text(), nullable=False),
        sa.Column("user_hash", sa.Text(), nullable=True),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("decided_sampler_id", sa.Text(), nullable=False),
        sa.Column("decided_sampler_version", sa.Text(), nullable=True),
        sa.Column("variant", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("flag_version", sa.Text(), nullable=True),
        sa.Column("salt", sa.Text(), nullable=True),
        sa.Column("engine_version", sa.Text(), nullable=False),
        sa.Column("is_exposure", sa.Boolean(), nullable=False),
        sa.Column("flag_error", sa.Text(), nullable=True),
        sa.Column("sampler_id", sa.Text(), nullable=False),
        sa.Column("sampler_version", sa.Text(), nullable=False),
        sa.Column("sampler_options", sa.JSON(), nullable=False),
        sa.Column("fallback_kind", sa.Text(), nullable=True),
        sa.Column("fallback_message", sa.Text(), nullable=True),
        sa.Column("encoder_id", sa.Text(), nullable=False),
        sa.Column("decode_version", sa.Text(), nullable=False),
        sa.Column("detector_version", sa.Text(), nullable=False),
        sa.Column("fps", sa.Double(), nullable=False),
        sa.Column("budget", sa.Integer(), nullable=False),
        sa.Column("limited_by", sa.Text(), nullable=False),
        sa.Column("reducer_id", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("llm_id", sa.Text(), nullable=False),
        sa.Column("video_seconds", sa.Double(), nullable=False),
        sa.Column("indices", sa.JSON(), nullable=False),
        sa.Column("vision_tokens_before", sa.Integer(), nullable=False),
        sa.Column("vision_tokens_after", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("latency_s", sa.JSON(), nullable=False),
        sa.Column("encoder_device_s", sa.Double(), nullable=False),
        sa.Column("model_calls", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("selection_s", sa.Double(), nullable=True),
        sa.Column("total_s", sa.Double(), nullable=False),
        sa.CheckConstraint("state IN ('done', 'failed', 'cancelled')", name="selections_state"),
        sa.PrimaryKeyConstraint("sequence"),
        sa.UniqueConstraint("answer_id", "video_id", name="selections_of_answer"),
        sqlite_autoincrement=True,
    )
    op.create_index("selections_by_age", "selections", ["created_s"], unique=False)
    op.create_index("selections_by_user", "selections", ["user_hash"], unique=False)
    op.create_index("selections_by_video", "selections", ["tenant", "video_id"], unique=False)
    op.create_index("selections_exposed", "selections", ["salt", "sequence"], unique=False)
    # ### end Alembic commands ###


def _create_feedback() -> None:
    op.create_table(
        "feedback",
        sa.Column("sequence", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("answer_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("video_id", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.CheckConstraint("verdict IN ('good', 'bad')", name="feedback_verdict"),
        sa.PrimaryKeyConstraint("sequence"),
        sa.UniqueConstraint("answer_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("feedback_by_age", "feedback", ["created_s"], unique=False)
    op.create_index("feedback_by_video", "feedback", ["tenant", "video_id"], unique=False)


def _create_comparisons() -> None:
    op.create_table(
        "comparisons",
        sa.Column("comparison_id", sa.Text(), nullable=False),
        sa.Column("answer_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("video_id", sa.Text(), nullable=False),
        sa.Column("user_hash", sa.Text(), nullable=True),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("flag_version", sa.Text(), nullable=True),
        sa.Column("encoder_id", sa.Text(), nullable=False),
        sa.Column("llm_id", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("reducer_id", sa.Text(), nullable=False),
        sa.Column("budget", sa.Integer(), nullable=False),
        sa.Column("video_seconds", sa.Double(), nullable=False),
        sa.Column("num_candidates", sa.Integer(), nullable=False),
        sa.Column("control_sampler_id", sa.Text(), nullable=False),
        sa.Column("control", sa.JSON(), nullable=False),
        sa.Column("shadow_sampler_id", sa.Text(), nullable=False),
        sa.Column("shadow", sa.JSON(), nullable=False),
        sa.Column("overlap_exact", sa.Double(), nullable=True),
        sa.Column("overlap_within", sa.Double(), nullable=True),
        sa.Column("tolerance_s", sa.Double(), nullable=False),
        sa.Column("temporal_distance_s", sa.Double(), nullable=True),
        sa.Column("answers_agree", sa.Double(), nullable=True),
        sa.Column("agreement_method", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("comparison_id"),
    )
    op.create_index("comparisons_by_age", "comparisons", ["created_s"], unique=False)
    op.create_index("comparisons_by_answer", "comparisons", ["answer_id"], unique=False)
    op.create_index("comparisons_by_user", "comparisons", ["user_hash"], unique=False)
    op.create_index("comparisons_by_video", "comparisons", ["tenant", "video_id"], unique=False)


def _create_deletions() -> None:
    op.create_table(
        "deletions",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("subject"),
    )


def _create_rollouts() -> None:
    op.create_table(
        "rollouts",
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("control", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("started_s", sa.Double(), nullable=False),
        sa.Column("changed_s", sa.Double(), nullable=False),
        sa.Column("rollout", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("rollout_id"),
    )
    op.create_index(
        "rollouts_one_active",
        "rollouts",
        ["is_active"],
        unique=True,
        sqlite_where=sa.text("is_active"),
        postgresql_where=sa.text("is_active"),
    )


def _create_rollout_steps() -> None:
    op.create_table(
        "rollout_steps",
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("old_weight", sa.Integer(), nullable=True),
        sa.Column("new_weight", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("flag_digest_before", sa.Text(), nullable=False),
        sa.Column("flag_digest_after", sa.Text(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("rollout_id", "sequence", name="rollout_steps_key"),
    )


def _create_intents() -> None:
    op.create_table(
        "intents",
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("intent", sa.JSON(), nullable=False),
        sa.CheckConstraint("slot = 1", name="intents_slot"),
        sa.PrimaryKeyConstraint("slot"),
    )


def _create_offline_scores() -> None:
    op.create_table(
        "offline_scores",
        sa.Column("sequence", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("sampler_id", sa.Text(), nullable=False),
        sa.Column("sampler_version", sa.Text(), nullable=True),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("num_questions", sa.Integer(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sequence"),
        sqlite_autoincrement=True,
    )


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("expires_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _guard_rollout_steps() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in POSTGRESQL_TRIGGERS if is_postgresql else SQLITE_TRIGGERS:
        op.execute(statement)
