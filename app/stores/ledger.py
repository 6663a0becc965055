"""The ledger: what was selected and what it cost, and how rollouts went. Columns: docs/ledger.md.

Plain synchronous calls, each one transaction, committed before it returns; asynchronous callers go
through threads. While the database is away every call raises `LedgerUnavailableError`, after
seconds at most; answers do not depend on it (`app/stores/ledger_writer.py` keeps their records).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sqlalchemy import URL

from app.errors import LedgerUnavailableError
from app.stores import ledger_answers, ledger_comparisons, ledger_deletion, ledger_rollouts
from app.stores.ledger_database import LedgerDatabase, LedgerVersionError
from app.stores.ledger_rows import (
    Exposure,
    FeedbackChange,
    FeedbackRecord,
    OfflineScore,
    RecordCounts,
    SelectionRecord,
)
from flags.rollout_plan import IntentRecord, Rollout, RolloutStep
from shadow.records import ComparisonRecord

MAX_ROWS = 100_000
"""Most rows that one reading call returns when it is not told otherwise."""


class Ledger:
    """Selections, feedback, comparisons, rollouts. Safe to call from any thread.

    Building it raises `LedgerVersionError` where a newer Framegate has made the tables, and
    `SettingsError` for an address of no database; writing raises `RecordRefusedError` for a record
    that cannot be held.
    """

    def __init__(self, url: str | URL, *, clock: Callable[[], float] = time.time) -> None:
        self._database = LedgerDatabase(url)
        self._clock = clock
        self.start_problem: str | None = None
        """Why the database could not be used when the ledger was opened; None: it could."""
        try:
            self._database.prepare()
        except LedgerUnavailableError as exc:
            self.start_problem = exc.detail
        except LedgerVersionError:
            self._database.close()
            raise

    @property
    def name(self) -> str:
        """The database's address without its password."""
        return self._database.name

    def close(self) -> None:
        self._database.close()

    def check(self) -> None:
        """Raises `LedgerUnavailableError` when the database does not answer."""
        with self._database.reading():
            pass

    # Answers

    def put_selections(self, records: Sequence[SelectionRecord]) -> None:
        """Add what is not there yet: the same records a second time change nothing."""
        with self._database.writing() as connection:
            ledger_answers.put_selections(connection, records)

    def selections_of(self, answer_id: str) -> list[SelectionRecord]:
        with self._database.reading() as connection:
            return ledger_answers.selections_of(connection, answer_id)

    def exposures_after(self, sequence: int, *, salt: str, limit: int = MAX_ROWS) -> list[Exposure]:
        """Of the users dealt with `salt`: ascending, those behind `sequence`; 0 is the start."""
        with self._database.reading() as connection:
            return ledger_answers.exposures_after(connection, sequence, salt, limit)

    def put_feedback(self, record: FeedbackRecord) -> None:
        """The last one of an answer counts."""
        with self._database.writing() as connection:
            ledger_answers.put_feedback(connection, record)

    def feedback_of(self, answer_id: str) -> FeedbackRecord | None:
        with self._database.reading() as connection:
            return ledger_answers.feedback_of(connection, answer_id)

    def feedback_after(
        self, sequence: int, *, salt: str, limit: int = MAX_ROWS
    ) -> list[FeedbackChange]:
        """Feedback on exposures of `salt` that came, or changed, behind `sequence`; ascending."""
        with self._database.reading() as connection:
            return ledger_answers.feedback_after(connection, sequence, salt, limit)

    # Shadow

    def put_comparisons(self, records: Sequence[ComparisonRecord]) -> None:
        """Add what is not there yet: the same records a second time change nothing."""
        with self._database.writing() as connection:
            ledger_comparisons.put_comparisons(connection, records)

    def comparisons(
        self,
        since_s: float,
        until_s: float,
        shadow_sampler: str | None = None,
        limit: int = MAX_ROWS,
    ) -> list[ComparisonRecord]:
        """The newest `limit` with since <= created < until, oldest first."""
        with self._database.reading() as connection:
            return ledger_comparisons.comparisons_between(
                connection, since_s, until_s, shadow_sampler, limit
            )

    # Deletion

    def answers_of_user(self, user_hash: str) -> list[str]:
        """Ids of the answers that have a selection of this user."""
        with self._database.reading() as connection:
            return ledger_deletion.answers_of_user(connection, user_hash)

    def delete_user(self, user_hash: str) -> RecordCounts:
        """Everything of one user; what is recorded later of answers asked until now stays out."""
        with self._database.writing() as connection:
            return ledger_deletion.delete_user(connection, user_hash, self._clock())

    def delete_video(self, tenant: str, video_id: str) -> RecordCounts:
        """Everything of a tenant's video; what is recorded later of it until now stays out."""
        with self._database.writing() as connection:
            return ledger_deletion.delete_video(connection, tenant, video_id, self._clock())

    def delete_older(self, before_s: float, limit: int) -> RecordCounts:
        """The oldest selections, comparisons and feedback; at most `limit` of each."""
        with self._database.writing() as connection:
            return ledger_deletion.delete_older(connection, before_s, limit, self._clock())

    # Rollouts

    def save_rollout(self, rollout: Rollout, step: RolloutStep) -> None:
        """The state and its step at once.

        Raises `RolloutConflictError` unless the step is the next of its rollout, and while another
        rollout is running or paused.
        """
        with self._database.writing() as connection:
            ledger_rollouts.save_rollout(connection, rollout, step)

    def find_rollout(self, rollout_id: str) -> Rollout | None:
        with self._database.reading() as connection:
            return ledger_rollouts.find_rollout(connection, rollout_id)

    def active_rollout(self) -> Rollout | None:
        """The one that is running or paused."""
        with self._database.reading() as connection:
            return ledger_rollouts.active_rollout(connection)

    def list_rollouts(self) -> list[Rollout]:
        """Newest first."""
        with self._database.reading() as connection:
            return ledger_rollouts.list_rollouts(connection)

    def rollout_steps(self, rollout_id: str) -> list[RolloutStep]:
        """In their order."""
        with self._database.reading() as connection:
            return ledger_rollouts.steps_of(connection, rollout_id)

    def put_intent(self, intent: IntentRecord) -> None:
        """Write ahead of an edit of the flag file. Raises `RolloutConflictError` while one is
        open."""
        with self._database.writing() as connection:
            ledger_rollouts.put_intent(connection, intent)

    def open_intent(self) -> IntentRecord | None:
        with self._database.reading() as connection:
            return ledger_rollouts.open_intent(connection)

    def close_intent(self) -> None:
        """Without effect when none is open."""
        with self._database.writing() as connection:
            ledger_rollouts.close_intent(connection)

    def put_offline_score(self, score: OfflineScore) -> None:
        with self._database.writing() as connection:
            ledger_rollouts.put_offline_score(connection, score)

    def offline_scores(self, *sampler_ids: str) -> list[OfflineScore]:
        """Of these samplers, or of all; oldest first."""
        with self._database.reading() as connection:
            return ledger_rollouts.list_offline_scores(connection, sampler_ids or None)

    # Leases

    def take_lease(self, name: str, holder: str, ttl_s: float) -> bool:
        """Take, or renew, the lease for `ttl_s` by the database's clock; False: another has it."""
        with self._database.writing() as connection:
            return ledger_rollouts.take_lease(connection, name, holder, ttl_s)

    def release_lease(self, name: str, holder: str) -> None:
        """Let it go, if it is the holder's."""
        with self._database.writing() as connection:
            ledger_rollouts.release_lease(connection, name, holder)
