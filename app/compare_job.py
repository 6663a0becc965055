"""What the gateway tells the process that draws a comparison of samplers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from app.compare_documents import ComparisonDocument
from app.worker_job import WorkerJob


class PictureFormat(StrEnum):
    PNG = "png"
    SVG = "svg"


class DrawingJob(WorkerJob):
    """One picture."""

    data_dir: Path
    decode_version: str
    compared: ComparisonDocument
    picture_format: PictureFormat
