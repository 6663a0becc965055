"""What the gateway tells the process that makes a shadow report."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from shadow.report_document import ReportScope


class ReportJob(BaseModel):
    """Goes through a pipe, never through arguments: the address may hold a password."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ledger_url: str
    data_dir: Path
    decode_version: str
    scope: ReportScope
    is_page: bool
    """The HTML page instead of the JSON document."""
    parent_pid: int
    timeout_s: float
