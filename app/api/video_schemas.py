"""The videos' wire format."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from app.errors import error_from_code
from app.index_job import IndexProgress
from app.stores.rows import VideoRow, VideoStatus

EXAMPLE_VIDEO_ID = "5e1f0c0d6a8f4f0c9a7d1b2e3c4d5f60718293a4b5c6d7e8f90123456789abcd"
LARGEST_FRAME_INDEX = 2**53

VideoIdPath = Annotated[
    str,
    Path(
        pattern=r"^[0-9a-f]{64}$",
        description="Hex sha256 of the video's bytes.",
        examples=[EXAMPLE_VIDEO_ID],
    ),
]
FrameIndexPath = Annotated[
    int,
    Path(ge=0, le=LARGEST_FRAME_INDEX, description="A candidate frame, in presentation order."),
]


class VideoFactsDocument(BaseModel):
    """What decoding found. Seconds count from the first shown frame."""

    num_frames: int
    duration_s: float = Field(description="The last frame's second plus one frame interval.")
    last_s: float = Field(description="Second of the last frame.")
    start_s: float = Field(description="The file's own time of its first shown frame.")
    width: int = Field(description="Upright, with square pixels.")
    height: int
    num_candidates: int = Field(description="Frames that samplers choose from; each has a picture.")
    fps: float = Field(description="Rate of the candidates' grid, not of the video.")
    num_scenes: int = Field(description="Shots.")
    is_hdr: bool = Field(description="PQ or HLG; pictures are not tone-mapped.")
    num_damaged_packets: int = Field(description="Skipped while decoding.")


class VideoDocument(BaseModel):
    """One video of yours."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "video_id": EXAMPLE_VIDEO_ID,
                    "status": "processing",
                    "progress": 0.42,
                    "is_evicted": False,
                    "size_bytes": 1048576,
                    "created": "2026-11-30T12:00:00+00:00",
                    "updated": "2026-11-30T12:00:01+00:00",
                    "facts": None,
                    "problem": None,
                }
            ]
        }
    )

    video_id: str
    status: VideoStatus = Field(description="pending, processing, ready or failed.")
    progress: float = Field(description="0..1, of decoding and indexing together.")
    is_evicted: bool = Field(
        description="Ready, but its derived data made room: the next question indexes it again."
    )
    size_bytes: int
    created: datetime
    updated: datetime = Field(description="When its status changed.")
    facts: VideoFactsDocument | None = Field(description="Known once the video was ready.")
    problem: dict[str, Any] | None = Field(
        description="Why it failed: type, title, status, detail, action (RFC 9457)."
    )


class VideoListDocument(BaseModel):
    """A page, newest first."""

    videos: list[VideoDocument]
    next_cursor: str | None = Field(description="Send it as `cursor` for the next page.")


def video_document(
    video: VideoRow, progress: IndexProgress | None, *, has_data: bool
) -> VideoDocument:
    """`progress` is of the running job, if any: it is fresher than the catalogue."""
    is_ready = video.status is VideoStatus.READY
    if progress is None:
        progress = IndexProgress(video.status, 1.0 if is_ready else 0.0)
    failure = video.failure
    return VideoDocument(
        video_id=video.video_id,
        status=progress.status,
        progress=round(progress.fraction, 4),
        is_evicted=is_ready and not has_data,
        size_bytes=video.size_bytes,
        created=datetime.fromtimestamp(video.created_s, UTC),
        updated=datetime.fromtimestamp(video.updated_s, UTC),
        facts=_facts_document(video),
        problem=failure and error_from_code(failure.code, failure.detail).problem(),
    )


def _facts_document(video: VideoRow) -> VideoFactsDocument | None:
    if video.facts is None:
        return None
    return VideoFactsDocument.model_validate(video.facts, from_attributes=True)
