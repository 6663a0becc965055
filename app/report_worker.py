"""Makes one shadow report: `python -m app.report_worker`.

Reads a `ReportJob` as JSON from standard input. Writes a line of JSON to standard output, `{}` or
`{"code": …, "detail": …}` with a code of `app.errors`, and after `{}` the report. It runs at low
priority, in a process of its own, because reading, resampling and drawing take seconds.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys

from app.decoding.limits import bind_to_parent
from app.errors import FramegateError
from app.report_job import ReportJob
from app.stores.layout import DataLayout
from app.stores.ledger import Ledger
from app.stores.thumbnails import StoredThumbnails
from shadow.records import ComparisonKind, ComparisonRecord
from shadow.report import build_report
from shadow.report_document import ReportScope

NICENESS = 10


def main() -> None:
    """Make the one report on standard input."""
    job = ReportJob.model_validate_json(sys.stdin.read())
    bind_to_parent(job.parent_pid)
    os.nice(NICENESS)
    signal.setitimer(signal.ITIMER_REAL, job.timeout_s)
    try:
        report = made(job)
    except FramegateError as error:
        _write(json.dumps({"code": error.code, "detail": error.detail}))
    else:
        _write("{}\n" + report)


def made(job: ReportJob) -> str:
    """The report as JSON or HTML. Raises `LedgerUnavailableError`."""
    ledger = Ledger(job.ledger_url)
    try:
        records = read_comparisons(ledger, job.scope)
    finally:
        ledger.close()
    report = build_report(records, job.scope)
    if not job.is_page:
        return report.model_dump_json()
    # Else it tells standard error, which is the gateway's, of the fonts that it looks through.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # Imported here because it brings matplotlib, which a document does not need.
    page = importlib.import_module("shadow.report_page")
    html: str = page.render_page(
        report, StoredThumbnails(DataLayout(job.data_dir), job.decode_version)
    )
    return html


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


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
