"""Has shadow reports made in a process of their own, one at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from app.errors import BusyError
from app.report_job import ReportJob
from app.settings import Settings, child_environment
from app.stores.layout import DataLayout
from app.stores.sqlite import sqlite_url
from app.worker_process import WorkerProcess, drawing_environment
from shadow.report_document import ReportScope

WORKER_MODULE = "app.report_worker"
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
        self._process = WorkerProcess(
            WORKER_MODULE, drawing_environment(environment, layout), "ask for a shorter time."
        )
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
            return await self._process.made(job)
