"""Fixtures of these tests: clips that are indexed once, ledgers on both databases."""

from tests.app.answer_world import indexed
from tests.app.ledger_world import ledger, ledger_url, postgres

__all__ = ["indexed", "ledger", "ledger_url", "postgres"]
