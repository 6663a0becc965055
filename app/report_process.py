"""Has shadow reports made in a process of their own, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from app.errors import BusyError, UnavailableError, error_from_code
from app.report_job import ReportJob
from app.settings import Settings, child_environment
from app.stores.layout import DataLayout
from app.stores.sqlite import sqlite_url
from shadow.report_document import ReportScope

WORKER_MODULE = "app.report_worker"
ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 120.0


class ShadowReportMaker:
    """Knows where comparisons and pictures are. Nothing runs between the calls of `make`."""

    def __init__(
        self,
        ledger_url: str,
        layout: DataLayout,
        decode_version: str,
        environment: Mapping[str, str],
    ) -> None:
        """`environment` is the process's, without what only drawing needs."""
        self._ledger_url = ledger_url
        self._layout = layout
        self._decode_version = decode_version
        # Else matplotlib looks through all fonts each time where the home folder is read-only.
        fonts = {"MPLCONFIGDIR": str(layout.run / "matplotlib"), "OPENBLAS_NUM_THREADS": "1"}
        self._environment = {**environment, **fonts}
        self._running = asyncio.Lock()

    @classmethod
    def of(cls, settings: Settings, layout: DataLayout, decode_version: str) -> ShadowReportMaker:
        """On the ledger of these settings."""
        if settings.ledger_url is None:
            ledger_url = sqlite_url(layout.ledger).render_as_string(hide_password=False)
        else:
            ledger_url = settings.ledger_url.get_secret_value()
        return cls(ledger_url, layout, decode_version, child_environment(settings, {}))

    async def make(self, scope: ReportScope, *, is_page: bool) -> bytes:
        """The JSON document or the HTML page, UTF-8.

        Raises `BusyError` while another report is being made, `LedgerUnavailableError` while the
        ledger is away, and `UnavailableError` where the process fails or takes too long. When the
        caller is cancelled the process is killed.
        """
        if self._running.locked():
            raise BusyError("Another shadow report is being made.")
        async with self._running:
            job = ReportJob(
                ledger_url=self._ledger_url,
                data_dir=self._layout.root,
                decode_version=self._decode_version,
                scope=scope,
                is_page=is_page,
                parent_pid=os.getpid(),
                timeout_s=TIMEOUT_S,
            )
            return _report_in(await self._output_of(job))

    async def _output_of(self, job: ReportJob) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            WORKER_MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env=self._environment,
        )
        try:
            output, _ = await process.communicate(job.model_dump_json().encode())
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            # Shielded: a second cancellation must not leave a zombie.
            await asyncio.shield(process.wait())
        if process.returncode:
            raise UnavailableError(
                f"The process that makes the report ended with code {process.returncode}; "
                "ask for a shorter time."
            )
        return output


def _report_in(output: bytes) -> bytes:
    head, _, report = output.partition(b"\n")
    problem = json.loads(head)
    if problem:
        raise error_from_code(problem["code"], problem["detail"])
    return report
