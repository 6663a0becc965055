"""Opening the ledger's database: its tables, its version, many at once, and while it is away."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from app.errors import LedgerUnavailableError
from app.settings import SettingsError
from app.stores.ledger import Ledger
from app.stores.ledger_database import LedgerVersionError, open_engine
from app.stores.ledger_schema import metadata
from app.stores.sqlite import IS_WRITING, sqlite_url
from tests.app.ledger_world import SALT, selection

ROOT = Path(__file__).resolve().parents[2]
OPEN_AND_WRITE = """
import sys
from app.stores.ledger import Ledger
from tests.app.ledger_world import selection
ledger = Ledger(sys.argv[1])
assert ledger.start_problem is None, ledger.start_problem
ledger.put_selections([selection(sys.argv[2])])
"""


def test_the_migrations_make_the_tables_of_the_schema(ledger: Ledger, ledger_url: str) -> None:
    engine = open_engine(ledger_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences: list[Any] = compare_metadata(context, metadata)
    engine.dispose()
    assert differences == []


def test_a_ledger_opened_again_holds_what_it_held(ledger: Ledger, ledger_url: str) -> None:
    ledger.put_selections([selection()])
    again = Ledger(ledger_url)
    assert again.selections_of("answer-1") == [selection()]
    again.close()


def test_a_ledger_of_a_newer_version_is_refused_as_it_is(ledger: Ledger, ledger_url: str) -> None:
    engine = open_engine(ledger_url).execution_options(**{IS_WRITING: True})
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LedgerVersionError, match=r"9999.*knows them up to 0001.*newer version"):
        Ledger(ledger_url)
    with engine.begin() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "9999"
    engine.dispose()
    assert issubclass(LedgerVersionError, SettingsError)


def test_processes_that_start_at_once_do_not_collide(ledger_url: str) -> None:
    commands = [[sys.executable, "-c", OPEN_AND_WRITE, ledger_url, str(n)] for n in range(3)]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 3, errors
    ledger = Ledger(ledger_url)
    assert sorted(row.answer_id for row in ledger.exposures_after(0, salt=SALT)) == list("012")
    ledger.close()


def test_threads_that_start_at_once_do_not_collide(ledger_url: str) -> None:
    problems: list[str | None] = []

    def open_one() -> None:
        ledger = Ledger(ledger_url)
        problems.append(ledger.start_problem)
        ledger.close()

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == [None] * 6


def test_a_database_that_is_away_at_the_start_is_prepared_when_it_comes(tmp_path: Path) -> None:
    in_the_way = tmp_path / "ledger.sqlite"
    in_the_way.mkdir()
    ledger = Ledger(sqlite_url(in_the_way))
    assert ledger.start_problem is not None
    with pytest.raises(LedgerUnavailableError):
        ledger.put_selections([selection()])
    with pytest.raises(LedgerUnavailableError):
        ledger.check()

    in_the_way.rmdir()
    ledger.put_selections([selection()])
    ledger.check()
    assert len(ledger.selections_of("answer-1")) == 1
    ledger.close()


def test_a_database_that_turns_out_newer_when_it_comes_counts_as_away(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.mkdir()
    ledger = Ledger(sqlite_url(path))
    path.rmdir()
    Ledger(sqlite_url(path)).close()
    engine = open_engine(sqlite_url(path)).execution_options(**{IS_WRITING: True})
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(LedgerUnavailableError, match="9999"):
        ledger.put_selections([selection()])
    ledger.close()


def test_an_unavailable_ledger_shows_no_statement_and_no_values(tmp_path: Path) -> None:
    ledger = Ledger(sqlite_url(tmp_path / "ledger.sqlite"))
    engine = open_engine(sqlite_url(tmp_path / "ledger.sqlite"))
    with engine.execution_options(**{IS_WRITING: True}).begin() as connection:
        connection.execute(text("DROP TABLE selections"))
    engine.dispose()
    with pytest.raises(LedgerUnavailableError) as caught:
        ledger.selections_of("what-the-user-asked")
    ledger.close()
    assert "what-the-user-asked" not in caught.value.detail
    assert "SELECT" not in caught.value.detail
