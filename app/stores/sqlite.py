"""How SQLite files are opened: the catalogue and, by default, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

BUSY_TIMEOUT_S = 10.0
IS_WRITING = "is_writing"
"""Execution option of an engine whose transactions write."""


def sqlite_url(path: Path) -> URL:
    """Whatever characters the path holds."""
    return URL.create("sqlite", database=str(path))


def sqlite_engine(path: Path, json_serializer: Callable[[object], str] | None = None) -> Engine:
    """The engine of one file; its folder is made.

    WAL with full sync: a commit is on disk before the reply that promises it (0.2 ms). Raises
    OSError where the folder cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        sqlite_url(path),
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
        json_serializer=json_serializer,
    )
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare_connection(dbapi_connection: Any, _record: object) -> None:
    # The driver would begin transactions by itself, late and never for reads: see `_begin`.
    dbapi_connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        dbapi_connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    # A reader that becomes a writer midway fails at once instead of waiting: writers say so first.
    is_writing = connection.get_execution_options().get(IS_WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")
