"""Deleting what is known of a user, in the ledger and among the stored answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.errors import LedgerUnavailableError
from app.stores.catalogue import Catalogue
from app.stores.ledger import Ledger
from app.stores.ledger_rows import RecordCounts

FLUSH_S = 5.0


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """How much of a user was there, and is gone."""

    answers: int
    """Stored answers, with their questions."""
    rows: RecordCounts
    """Rows of the ledger."""


@dataclass(frozen=True, slots=True)
class UserDeletion:
    """Blocks on both databases."""

    catalogue: Catalogue
    ledger: Ledger
    flush: Callable[[float], bool]
    """Of the ledger's writer: rows that wait tell of answers, too."""
    hash_user_id: Callable[[str, str], str]
    """Of tenant and user id."""

    def delete(self, tenant: str, user_id: str) -> DeletedRecords:
        """Raises `LedgerUnavailableError`; a second call then finishes what this one began."""
        if not self.flush(FLUSH_S):
            raise LedgerUnavailableError("Rows of answers still wait for the ledger's database.")
        user_hash = self.hash_user_id(tenant, user_id)
        # The ledger's rows go last: only they tell which answers were the user's.
        answer_ids = self.ledger.answers_of_user(user_hash)
        num_answers = self.catalogue.delete_answers(tenant, answer_ids)
        return DeletedRecords(num_answers, self.ledger.delete_user(user_hash))
