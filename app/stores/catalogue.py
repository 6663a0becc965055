"""The catalogue: which videos exist, whose they are, how far they are, and what was answered.

Plain synchronous calls, each one transaction, committed before it returns; asynchronous callers go
through `asyncio.to_thread`. Bytes and derived data of a video are shared by all its owners, so
every read on behalf of a caller names the tenant: a video of somebody else does not exist.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as insert_or_ignore
from sqlalchemy.exc import OperationalError

from app.errors import (
    AnswerNotFoundError,
    BusyError,
    InvalidRequestError,
    StorageFullError,
    VideoBusyError,
    VideoNotFoundError,
)
from app.stores.rows import (
    AnswerRow,
    AnswerState,
    Failure,
    VideoFacts,
    VideoPage,
    VideoRow,
    VideoStatus,
    answer_row,
    video_row,
)
from app.stores.schema import answers, open_database, owners, videos
from app.stores.sqlite import IS_WRITING

MAX_BOUND_VALUES = 500
"""In one statement; SQLite has a limit."""
PRUNE_INTERVAL = 64
"""Answers written between two prunings: the table exceeds its bound by no more than this."""


class Catalogue:
    """Videos, owners and answers in one SQLite file. Safe to call from any thread.

    Every method raises StorageFullError when the disk is full and BusyError when the file stays
    locked for ten seconds.
    """

    def __init__(
        self, path: Path, *, max_answers: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._engine = open_database(path)
        self._max_answers = max_answers
        self._clock = clock
        self._num_answers_put = 0

    def close(self) -> None:
        self._engine.dispose()

    # Videos, as an owner sees them

    def add_video(self, tenant: str, video_id: str, size_bytes: int) -> bool:
        """Note that `tenant` owns this content. True when it did not own it before.

        A content that nobody owned before starts as pending.
        """
        now = self._clock()
        with self._writing() as connection:
            connection.execute(
                insert_or_ignore(videos)
                .values(
                    video_id=video_id,
                    status=VideoStatus.PENDING,
                    size_bytes=size_bytes,
                    created_s=now,
                    updated_s=now,
                    last_used_s=now,
                )
                .on_conflict_do_nothing()
            )
            result = connection.execute(
                insert_or_ignore(owners)
                .values(tenant=tenant, video_id=video_id, created_s=now)
                .on_conflict_do_nothing()
            )
            return result.rowcount == 1

    def get_video(self, tenant: str, video_id: str) -> VideoRow:
        """Raises VideoNotFoundError when the tenant does not own such a video."""
        query = select(videos).join(owners).where(owners.c.tenant == tenant)
        with self._reading() as connection:
            row = connection.execute(query.where(videos.c.video_id == video_id)).one_or_none()
        if row is None:
            raise VideoNotFoundError(f"You have no video {video_id}.")
        return video_row(row)

    def list_videos(self, tenant: str, *, limit: int, cursor: str | None = None) -> VideoPage:
        """One page of the tenant's videos. Raises InvalidRequestError for a foreign cursor."""
        query = select(videos, owners.c.sequence).join(owners).where(owners.c.tenant == tenant)
        if cursor is not None:
            query = query.where(owners.c.sequence < _parse_cursor(cursor))
        query = query.order_by(owners.c.sequence.desc()).limit(limit + 1)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        page = rows[:limit]
        next_cursor = str(page[-1].sequence) if len(rows) > limit else None
        return VideoPage(tuple(video_row(row) for row in page), next_cursor)

    def remove_owner(self, tenant: str, video_id: str) -> bool:
        """Take the video, and the tenant's answers about it, from the tenant.

        True when nobody owns it any more: the row is gone too, and bytes and derived data are to
        be removed. Raises VideoNotFoundError, and VideoBusyError while an answer of the tenant
        about it is running (a client may still read its evidence).
        """
        of_tenant = (answers.c.tenant == tenant) & (answers.c.video_id == video_id)
        owned = (owners.c.tenant == tenant) & (owners.c.video_id == video_id)
        is_running = of_tenant & (answers.c.state == AnswerState.RUNNING)
        with self._writing() as connection:
            if not connection.scalar(select(func.count()).where(owned)):
                raise VideoNotFoundError(f"You have no video {video_id}.")
            if connection.scalar(select(func.count()).where(is_running)):
                raise VideoBusyError("An answer about this video is running.")
            connection.execute(delete(answers).where(of_tenant))
            connection.execute(delete(owners).where(owned))
            left = select(func.count()).where(owners.c.video_id == video_id)
            if connection.scalar(left):
                return False
            connection.execute(delete(videos).where(videos.c.video_id == video_id))
            return True

    # Videos, as the index stage sees them

    def find_video(self, video_id: str) -> VideoRow | None:
        """The video whoever owns it; never answer a caller from this."""
        with self._reading() as connection:
            row = connection.execute(
                select(videos).where(videos.c.video_id == video_id)
            ).one_or_none()
        return None if row is None else video_row(row)

    def unfinished_videos(self) -> list[str]:
        """Ids of pending and processing videos, oldest first: start-up resumes them."""
        query = select(videos.c.video_id).where(
            videos.c.status.in_([VideoStatus.PENDING, VideoStatus.PROCESSING])
        )
        with self._reading() as connection:
            return list(connection.scalars(query.order_by(videos.c.created_s)))

    def video_ids(self) -> set[str]:
        with self._reading() as connection:
            return set(connection.scalars(select(videos.c.video_id)))

    def videos_by_use(self) -> list[str]:
        """Ids, least recently asked about first."""
        query = select(videos.c.video_id).order_by(videos.c.last_used_s, videos.c.created_s)
        with self._reading() as connection:
            return list(connection.scalars(query))

    def set_pending(self, video_id: str) -> None:
        """Queue the video again: a retry, or its derived data are gone. Attempts start anew."""
        self._set(
            video_id,
            status=VideoStatus.PENDING,
            failure_code=None,
            failure_detail=None,
            num_attempts=0,
        )

    def set_processing(self, video_id: str) -> None:
        """Indexing starts; counts an attempt."""
        self._set(video_id, status=VideoStatus.PROCESSING, num_attempts=videos.c.num_attempts + 1)

    def set_ready(self, video_id: str, facts: VideoFacts) -> None:
        """Everything a question needs is in the stores."""
        now = self._clock()
        self._set(video_id, status=VideoStatus.READY, last_used_s=now, **asdict(facts))

    def set_failed(self, video_id: str, failure: Failure) -> None:
        self._set(
            video_id,
            status=VideoStatus.FAILED,
            failure_code=failure.code,
            failure_detail=failure.detail,
        )

    # Answers

    def put_answer(self, answer_id: str, tenant: str, video_id: str, question: str) -> None:
        """Note a running answer, and that the video was asked about.

        Raises VideoNotFoundError when the tenant does not own the video: it may have been deleted
        since it was looked up.
        """
        now = self._clock()
        owned = (owners.c.tenant == tenant) & (owners.c.video_id == video_id)
        with self._writing() as connection:
            if not connection.scalar(select(func.count()).where(owned)):
                raise VideoNotFoundError(f"You have no video {video_id}.")
            connection.execute(
                insert(answers).values(
                    answer_id=answer_id,
                    tenant=tenant,
                    video_id=video_id,
                    state=AnswerState.RUNNING,
                    question=question,
                    created_s=now,
                )
            )
            connection.execute(
                update(videos).where(videos.c.video_id == video_id).values(last_used_s=now)
            )
            self._num_answers_put += 1
            if self._num_answers_put % PRUNE_INTERVAL == 0:
                self._prune_answers(connection)

    def finish_answer(
        self, answer_id: str, state: AnswerState, document: Mapping[str, Any]
    ) -> None:
        """Store what GET /v1/answers/{id} returns. Raises AnswerNotFoundError."""
        values = {
            "state": state,
            "finished_s": self._clock(),
            "document": json.dumps(document, ensure_ascii=False),
        }
        with self._writing() as connection:
            statement = update(answers).where(answers.c.answer_id == answer_id)
            if connection.execute(statement.values(values)).rowcount == 0:
                raise AnswerNotFoundError(f"There is no answer {answer_id}.")

    def get_answer(self, tenant: str, answer_id: str) -> AnswerRow:
        """Raises AnswerNotFoundError when the tenant has no such answer."""
        query = select(answers).where(answers.c.tenant == tenant)
        with self._reading() as connection:
            row = connection.execute(query.where(answers.c.answer_id == answer_id)).one_or_none()
        if row is None:
            raise AnswerNotFoundError(f"You have no answer {answer_id}.")
        return answer_row(row)

    def delete_answers(self, tenant: str, answer_ids: Sequence[str]) -> int:
        """Take these out, but for those that still run. Returns how many there were."""
        of_tenant = (answers.c.tenant == tenant) & (answers.c.state != AnswerState.RUNNING)
        num_deleted = 0
        with self._writing() as connection:
            for start in range(0, len(answer_ids), MAX_BOUND_VALUES):
                is_one = answers.c.answer_id.in_(answer_ids[start : start + MAX_BOUND_VALUES])
                statement = delete(answers).where(of_tenant & is_one)
                num_deleted += connection.execute(statement).rowcount
        return num_deleted

    def fail_interrupted_answers(self) -> int:
        """At start-up: what a former process left running has failed. Returns how many.

        Also prunes: a start-up is when a lowered bound takes effect.
        """
        values = {"state": AnswerState.FAILED, "finished_s": self._clock()}
        statement = update(answers).where(answers.c.state == AnswerState.RUNNING)
        with self._writing() as connection:
            num_interrupted = connection.execute(statement.values(values)).rowcount
            self._prune_answers(connection)
        return num_interrupted

    def _prune_answers(self, connection: Connection) -> None:
        kept = select(answers.c.created_s).order_by(answers.c.created_s.desc())
        oldest_kept = connection.scalar(kept.offset(self._max_answers - 1).limit(1))
        if oldest_kept is not None:
            is_old = answers.c.created_s < oldest_kept
            is_finished = answers.c.state != AnswerState.RUNNING
            connection.execute(delete(answers).where(is_old & is_finished))

    def _set(self, video_id: str, **values: object) -> None:
        # Zero rows: the last owner deleted it meanwhile, and there is nothing left to note.
        statement = update(videos).where(videos.c.video_id == video_id)
        with self._writing() as connection:
            connection.execute(statement.values(updated_s=self._clock(), **values))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with _translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        engine = self._engine.execution_options(**{IS_WRITING: True})
        with _translated(), engine.begin() as connection:
            yield connection


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OperationalError as exc:
        code = getattr(exc.orig, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_FULL:
            raise StorageFullError("The catalogue's disk is full.") from exc
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BusyError("The catalogue is locked by another process.") from exc
        raise


def _parse_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidRequestError("`cursor` is not one that a list returned.")
    return int(cursor)
