"""Small pictures of candidate frames, made from the stored ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import cv2

from app.stores.frames import FrameTable, PicturePack, find_frames, read_frame_table
from app.stores.layout import DataLayout

THUMBNAIL_SIDE_PX = 192
THUMBNAIL_QUALITY = 70
MAX_OPEN_VIDEOS = 16


@dataclass(frozen=True, slots=True)
class _OpenedVideo:
    table: FrameTable
    pictures: PicturePack


class StoredThumbnails:
    """Blocks on disk. A video that was evicted or deleted has none."""

    def __init__(self, layout: DataLayout, decode_version: str) -> None:
        def opened(video_id: str) -> _OpenedVideo | None:
            return _open(layout, video_id, decode_version)

        self._opened: Callable[[str], _OpenedVideo | None] = lru_cache(MAX_OPEN_VIDEOS)(opened)

    def thumbnail(self, video_id: str, frame_index: int) -> bytes | None:
        """A JPEG, its longer side at most `THUMBNAIL_SIDE_PX`; None where there is no picture."""
        video = self._opened(video_id)
        row = None if video is None else video.table.candidate_row(frame_index)
        if video is None or row is None:
            return None
        try:
            pixels = video.pictures.rgb(row)
        except OSError:
            return None
        shrunk_by = min(1.0, THUMBNAIL_SIDE_PX / max(pixels.shape[:2]))
        small = cv2.resize(pixels, None, fx=shrunk_by, fy=shrunk_by, interpolation=cv2.INTER_AREA)
        quality = [cv2.IMWRITE_JPEG_QUALITY, THUMBNAIL_QUALITY]
        jpeg = cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), quality)[1]
        return jpeg.tobytes()


def _open(layout: DataLayout, video_id: str, decode_version: str) -> _OpenedVideo | None:
    folder = find_frames(layout, video_id, decode_version)
    if folder is None:
        return None
    try:
        return _OpenedVideo(read_frame_table(folder), PicturePack(folder))
    except FileNotFoundError:
        return None
