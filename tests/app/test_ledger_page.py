"""docs/ledger.md against the tables, and its query against a real PostgreSQL."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy import Table, text

from app.stores.ledger import Ledger
from app.stores.ledger_database import open_engine
from app.stores.ledger_schema import metadata
from shadow.records import SideRecord
from tests.app.ledger_world import selection
from tests.app.postgres import Postgres

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
TABLES = [*metadata.tables.values()]


def section(table: str) -> str:
    """The page's part on one table."""
    return PAGE.partition(f"### `{table}`\n")[2].partition("\n## ")[0].partition("\n### ")[0]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_stands_in_its_tables_section(table: Table) -> None:
    rows = re.findall(r"^\| (`.+?) \|", section(table.name), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {column.name for column in table.columns}


def test_the_page_names_no_table_that_does_not_exist() -> None:
    assert set(re.findall(r"^### `(\w+)`", PAGE, re.MULTILINE)) == set(metadata.tables)


def test_every_field_of_a_side_stands_on_the_page() -> None:
    for field in fields(SideRecord):
        assert f"`{field.name}`" in section("comparisons")


def test_the_query_of_the_page_works(postgres: Postgres) -> None:
    url = postgres.new_database()
    ledger = Ledger(url)
    ledger.put_selections(
        [selection("a", fallback_kind="raised"), selection("b"), selection("c", state="failed")]
    )
    ledger.close()
    [query] = re.findall(r"```sql\n(.+?)```", PAGE, re.DOTALL)
    engine = open_engine(url)
    with engine.begin() as connection:
        row = connection.execute(text(query)).one()
    engine.dispose()
    assert (row.arm, row.answers, row.users, row.p95_s) == ("aks", 3, 1, 0.5)
    assert float(row.fallbacks) == pytest.approx(1 / 3)
    assert float(row.failed) == pytest.approx(1 / 3)
