"""Draws one comparison of samplers: `python -m app.compare_worker` (`app/worker_job.py`)."""

from __future__ import annotations

import cv2
import numpy as np

from app.compare_canvas import Pixels
from app.compare_job import DrawingJob
from app.compare_picture import draw_comparison
from app.stores.layout import DataLayout
from app.stores.thumbnails import StoredThumbnails
from app.worker_job import work


def drawn(job: DrawingJob) -> bytes:
    """The picture. Frames whose video was evicted or deleted meanwhile have no thumbnails."""
    stored = StoredThumbnails(DataLayout(job.data_dir), job.decode_version)

    def thumbnail(index: int) -> Pixels | None:
        jpeg = stored.thumbnail(job.compared.video_id, index)
        if jpeg is None:
            return None
        pixels = cv2.imdecode(np.frombuffer(jpeg, dtype=np.uint8), cv2.IMREAD_COLOR_RGB)
        return None if pixels is None else np.asarray(pixels, dtype=np.uint8)

    return draw_comparison(job.compared, thumbnail, job.picture_format)


if __name__ == "__main__":
    work(DrawingJob, drawn)
