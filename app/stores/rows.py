"""What the catalogue returns: frozen rows, and how they are read from the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row


class VideoStatus(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


class AnswerState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a video failed: a `code` of app/errors.py and its detail."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """What decoding found out. `fps` is the rate of the candidates' grid, not the video's."""

    fps: float
    num_frames: int
    num_candidates: int
    num_scenes: int
    start_s: float
    """The file's own time of its first shown frame, which is second 0 everywhere else."""
    last_s: float
    """Second of the last frame."""
    duration_s: float
    width: int
    height: int
    is_hdr: bool
    num_damaged_packets: int


@dataclass(frozen=True, slots=True)
class VideoRow:
    """A video. Times are Unix seconds. `facts` stay when derived data are evicted."""

    video_id: str
    status: VideoStatus
    failure: Failure | None
    size_bytes: int
    created_s: float
    updated_s: float
    last_used_s: float
    num_attempts: int
    facts: VideoFacts | None


@dataclass(frozen=True, slots=True)
class VideoPage:
    """Newest first. `next_cursor` is None on the last page."""

    videos: tuple[VideoRow, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer. `document` is what GET returns; None while it runs or when it was interrupted."""

    answer_id: str
    tenant: str
    video_id: str
    state: AnswerState
    question: str
    created_s: float
    finished_s: float | None
    document: Mapping[str, Any] | None


def video_row(row: Row[Any]) -> VideoRow:
    has_failure = row.failure_code is not None
    return VideoRow(
        video_id=row.video_id,
        status=VideoStatus(row.status),
        failure=Failure(row.failure_code, row.failure_detail or "") if has_failure else None,
        size_bytes=row.size_bytes,
        created_s=row.created_s,
        updated_s=row.updated_s,
        last_used_s=row.last_used_s,
        num_attempts=row.num_attempts,
        facts=None if row.num_frames is None else _facts(row),
    )


def _facts(row: Row[Any]) -> VideoFacts:
    return VideoFacts(
        fps=row.fps,
        num_frames=row.num_frames,
        num_candidates=row.num_candidates,
        num_scenes=row.num_scenes,
        start_s=row.start_s,
        last_s=row.last_s,
        duration_s=row.duration_s,
        width=row.width,
        height=row.height,
        is_hdr=bool(row.is_hdr),
        num_damaged_packets=row.num_damaged_packets,
    )


def answer_row(row: Row[Any]) -> AnswerRow:
    return AnswerRow(
        answer_id=row.answer_id,
        tenant=row.tenant,
        video_id=row.video_id,
        state=AnswerState(row.state),
        question=row.question,
        created_s=row.created_s,
        finished_s=row.finished_s,
        document=None if row.document is None else json.loads(row.document),
    )
