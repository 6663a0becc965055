"""Has comparisons of samplers drawn in a process of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from app.compare_documents import ComparisonDocument
from app.compare_job import DrawingJob, PictureFormat
from app.stores.layout import DataLayout
from app.worker_process import WorkerProcess, drawing_environment

WORKER_MODULE: Final = "app.compare_worker"
TIMEOUT_S: Final = 120.0


class ComparisonDrawer:
    """Knows where the pictures are. Nothing runs between the calls of `draw`."""

    def __init__(
        self, layout: DataLayout, decode_version: str, environment: Mapping[str, str]
    ) -> None:
        """`environment` is the process's, without what only drawing needs."""
        self._layout = layout
        self._decode_version = decode_version
        self._process = WorkerProcess(
            WORKER_MODULE,
            drawing_environment(environment, layout),
            "ask for fewer samplers or a smaller budget.",
        )

    async def draw(self, compared: ComparisonDocument, picture_format: PictureFormat) -> bytes:
        """PNG, or SVG in UTF-8.

        Raises `UnavailableError` where the process fails or takes too long. When the caller is
        cancelled the process is killed.
        """
        job = DrawingJob(
            data_dir=self._layout.root,
            decode_version=self._decode_version,
            compared=compared,
            picture_format=picture_format,
            parent_pid=os.getpid(),
            timeout_s=TIMEOUT_S,
        )
        return await self._process.made(job)
