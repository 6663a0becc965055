"""The ledger's database, SQLite or PostgreSQL: opened, brought to this version's tables, guarded.

It may be away when the service starts: the first call that finds it there prepares it.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    SQLAlchemyError,
    StatementError,
)

from app.errors import LedgerUnavailableError
from app.settings import SettingsError
from app.stores.sqlite import IS_WRITING, sqlite_engine

MIGRATIONS = Path(__file__).with_name("migrations")
LOCK_KEY = 0x6672616D65676174
"""Of the advisory lock that writers of PostgreSQL take in turn: the bytes of `framegat`."""
POSTGRESQL_OPTIONS = (
    "-c synchronous_commit=on -c lock_timeout=10s -c statement_timeout=60s "
    "-c idle_in_transaction_session_timeout=60s"
)
CONNECT_TIMEOUT_S = 5
TCP_TIMEOUT_MS = 10_000
POOL_SIZE = 4

# Alembic keeps what it works on in globals of its own.
_alembic_lock = threading.Lock()


class LedgerVersionError(SettingsError):
    """The database holds the tables of a newer version of Framegate."""


class RecordRefusedError(Exception):
    """The database is there, and will never take this record."""


def open_engine(url: str | URL) -> Engine:
    """An engine that has connected to nothing yet.

    Raises SettingsError for an address that is neither SQLite's nor PostgreSQL's, and OSError
    where the folder of a SQLite file cannot be made.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as exc:
        raise SettingsError("FRAMEGATE_LEDGER_URL is no database address" + _EXAMPLE) from exc
    if parsed.drivername == "sqlite" and parsed.database:
        return sqlite_engine(Path(parsed.database), json_text)
    if parsed.drivername in {"postgresql", "postgres", "postgresql+psycopg"}:
        return _postgresql_engine(parsed)
    raise SettingsError(f"FRAMEGATE_LEDGER_URL names {parsed.drivername}" + _EXAMPLE)


_EXAMPLE = "; write postgresql://user:password@host/database, or leave it unset for a SQLite file."


def _postgresql_engine(url: URL) -> Engine:
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT_S,
            "options": POSTGRESQL_OPTIONS,
            # A server that vanished without a word is noticed within so long.
            "tcp_user_timeout": TCP_TIMEOUT_MS,
            "keepalives_idle": 10,
        },
        json_serializer=json_text,
        pool_size=POOL_SIZE,
        pool_timeout=CONNECT_TIMEOUT_S,
        # A database that was restarted left dead connections behind.
        pool_pre_ping=True,
    )


class LedgerDatabase:
    """Transactions on the ledger. Safe to use from any thread.

    Transactions raise `LedgerUnavailableError` while the database is away, or newer than this
    Framegate.
    """

    def __init__(self, url: str | URL) -> None:
        self._engine = open_engine(url)
        self._preparing = threading.Lock()
        self._is_prepared = False

    @property
    def name(self) -> str:
        """The address without its password."""
        return self._engine.url.render_as_string(hide_password=True)

    def close(self) -> None:
        self._engine.dispose()

    def prepare(self) -> None:
        """Bring the tables to this version, once; other processes wait meanwhile.

        Raises `LedgerUnavailableError`, and `LedgerVersionError` where they are newer.
        """
        if self._is_prepared:
            return
        with self._preparing, _translated(), self._begun(is_writing=True) as connection:
            if not self._is_prepared:
                _migrate(connection, self.name)
        self._is_prepared = True

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that only reads."""
        self._prepare_late()
        with _translated(), self._begun(is_writing=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, committed at the block's end. Writers go one after the other.

        Hence rows get their sequence numbers in the order in which others begin to see them.
        Raises `RecordRefusedError` for a row that the database will never take.
        """
        self._prepare_late()
        with _translated(), self._begun(is_writing=True) as connection:
            yield connection

    def _prepare_late(self) -> None:
        """For a database that was away at the start: nobody can be refused the start any more."""
        try:
            self.prepare()
        except LedgerVersionError as exc:
            raise LedgerUnavailableError(str(exc)) from exc

    @contextmanager
    def _begun(self, *, is_writing: bool) -> Iterator[Connection]:
        engine = self._engine.execution_options(**{IS_WRITING: is_writing})
        with engine.begin() as connection:
            if is_writing and connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
            yield connection


def _migrate(connection: Connection, name: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    current = set(MigrationContext.configure(connection).get_current_heads())
    newer = current - known
    if newer:
        raise LedgerVersionError(
            f"The ledger {name} has tables of version {', '.join(sorted(newer))}; this Framegate "
            f"knows them up to {max(known)}. Start the newer version again, or give "
            "FRAMEGATE_LEDGER_URL another database."
        )
    if current != set(scripts.get_heads()):
        with _alembic_lock:
            command.upgrade(config, "head")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (DataError, IntegrityError, OverflowError) as exc:
        raise RecordRefusedError(str(exc)) from exc
    except SQLAlchemyError as exc:
        if isinstance(exc, StatementError) and not isinstance(exc, DBAPIError):
            raise RecordRefusedError(str(exc)) from exc
        # Without the statement and its values: the caller sees this text.
        cause = exc.orig if isinstance(exc, DBAPIError) else exc
        raise LedgerUnavailableError(f"The ledger cannot be used: {cause}".strip()) from exc


def json_text(value: object) -> str:
    """JSON that both databases take: only ASCII, and null for what is no finite number.

    Raises `RecordRefusedError` for what JSON cannot say.
    """
    try:
        return _dumped(value)
    except ValueError:
        return _dumped(_finite(value))


def _dumped(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_refused)


def _refused(value: object) -> object:
    raise RecordRefusedError(f"{type(value).__name__} cannot be written as JSON")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value
