"""What the gateway tells the process that makes a shadow report."""

from __future__ import annotations

from pathlib import Path

from app.worker_job import WorkerJob
from shadow.report_document import ReportScope


class ReportJob(WorkerJob):
    """One report."""

    ledger_url: str
    data_dir: Path
    decode_version: str
    scope: ReportScope
    is_page: bool
    """The HTML page instead of the JSON document."""
