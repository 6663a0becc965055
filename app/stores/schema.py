"""Tables of the catalogue, and the engine that opens them. Version 1.

`PRAGMA user_version` holds the version: a file written by a newer Framegate is refused, so that a
rollback of the service never writes rows that the newer one misreads.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from app.stores.sqlite import IS_WRITING, sqlite_engine

SCHEMA_VERSION = 1

metadata = MetaData()

videos = Table(
    "videos",
    metadata,
    Column("video_id", String(64), primary_key=True),
    Column("status", String(16), nullable=False),
    Column("failure_code", String(64)),
    Column("failure_detail", Text),
    Column("size_bytes", Integer, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("updated_s", Float, nullable=False),
    Column("last_used_s", Float, nullable=False),
    Column("num_attempts", Integer, nullable=False, default=0),
    Column("fps", Float),
    Column("num_frames", Integer),
    Column("num_candidates", Integer),
    Column("num_scenes", Integer),
    Column("start_s", Float),
    Column("last_s", Float),
    Column("duration_s", Float),
    Column("width", Integer),
    Column("height", Integer),
    Column("is_hdr", Integer),
    Column("num_damaged_packets", Integer),
    CheckConstraint("status IN ('pending', 'processing', 'ready', 'failed')"),
    Index("videos_by_status", "status", "created_s"),
)

owners = Table(
    "owners",
    metadata,
    # Ever increasing, so that it pages a list stably while videos come and go.
    Column("sequence", Integer, primary_key=True, autoincrement=True),
    Column("tenant", String(128), nullable=False),
    Column("video_id", String(64), ForeignKey("videos.video_id"), nullable=False),
    Column("created_s", Float, nullable=False),
    UniqueConstraint("tenant", "video_id"),
    Index("owners_by_video", "video_id"),
    sqlite_autoincrement=True,
)

answers = Table(
    "answers",
    metadata,
    Column("answer_id", String(64), primary_key=True),
    Column("tenant", String(128), nullable=False),
    Column("video_id", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("question", Text, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("finished_s", Float),
    Column("document", Text),
    CheckConstraint("state IN ('running', 'done', 'failed', 'cancelled')"),
    Index("answers_by_age", "created_s"),
    Index("answers_by_video", "tenant", "video_id", "state"),
)


class CatalogueVersionError(RuntimeError):
    """The catalogue file was written by a newer version of Framegate."""


def open_database(path: Path) -> Engine:
    """Open (and create) the catalogue file.

    Raises CatalogueVersionError, and sqlalchemy.exc.DatabaseError when the file is no database.
    """
    engine = sqlite_engine(path)
    try:
        with engine.execution_options(**{IS_WRITING: True}).begin() as connection:
            _create_or_check(connection, path)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _create_or_check(connection: Connection, path: Path) -> None:
    version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if version > SCHEMA_VERSION:
        raise CatalogueVersionError(
            f"{path} has schema version {version}; this Framegate knows {SCHEMA_VERSION}. "
            "Start the newer version again, or give FRAMEGATE_DATA_DIR an empty folder."
        )
    metadata.create_all(connection)
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
