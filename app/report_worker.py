"""Makes one shadow report: `python -m app.report_worker` (`app/worker_job.py`).

In a process of its own, because reading, resampling and drawing take seconds.
"""

from __future__ import annotations

import importlib

from app.report_job import ReportJob
from app.stores.layout import DataLayout
from app.stores.ledger import Ledger
from app.stores.thumbnails import StoredThumbnails
from app.worker_job import work
from shadow.records import ComparisonKind, ComparisonRecord
from shadow.report import build_report
from shadow.report_document import ReportScope


def made(job: ReportJob) -> bytes:
    """The report as JSON or HTML. Raises `LedgerUnavailableError`."""
    ledger = Ledger(job.ledger_url)
    try:
        records = read_comparisons(ledger, job.scope)
    finally:
        ledger.close()
    report = build_report(records, job.scope)
    if not job.is_page:
        return report.model_dump_json().encode()
    # Imported here because it brings matplotlib, which a document does not need.
    page = importlib.import_module("shadow.report_page")
    html: str = page.render_page(
        report, StoredThumbnails(DataLayout(job.data_dir), job.decode_version)
    )
    return html.encode()


def read_comparisons(ledger: Ledger, scope: ReportScope) -> list[ComparisonRecord]:
    """Of the scope, and the A/A comparisons of their controls; one more than it takes at most."""
    limit = scope.max_comparisons + 1
    found = ledger.comparisons(scope.since_s, scope.until_s, scope.sampler, limit)
    if scope.sampler is None:
        return found
    controls = {record.control.sampler_id for record in found} - {scope.sampler}
    against_itself = [
        record
        for control in sorted(controls)
        for record in ledger.comparisons(scope.since_s, scope.until_s, control, limit)
        if record.kind is ComparisonKind.A_A
    ]
    return found + against_itself


if __name__ == "__main__":
    work(ReportJob, made)
