"""Keeps the service's processes running; one supervisor a data folder."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.supervise.process_table import (
    TABLE_NAME,
    ProcessName,
    ProcessTable,
    ServiceRow,
    read_process_table,
    write_process_table,
)
from app.supervise.service import ServiceSpec, SupervisedService
from app.supervise.stale_processes import end_stale_processes, process_name, this_world

LOCK_NAME = "supervisor.lock"

logger = logging.getLogger(__name__)


class AlreadyRunningError(RuntimeError):
    """Another supervisor runs on the same data folder."""


@contextlib.contextmanager
def supervisor_lock(run_folder: Path) -> Iterator[None]:
    """Held while a supervisor runs; the kernel frees it when the process ends, however it ends.

    Raises `AlreadyRunningError`.
    """
    run_folder.mkdir(parents=True, exist_ok=True)
    with (run_folder / LOCK_NAME).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise AlreadyRunningError(_already_running_text(run_folder)) from exc
        yield


def _already_running_text(run_folder: Path) -> str:
    table = read_process_table(run_folder / TABLE_NAME)
    who = "" if table is None else f" (process {table.supervisor.pid})"
    return (
        f"Framegate already runs{who} on the data folder {run_folder.parent}. Stop it with "
        "`framegate stop`, or choose another folder by FRAMEGATE_DATA_DIR."
    )


class Supervisor:
    """Runs services in the order given, all starting at once; ends them in that order.

    The caller holds `supervisor_lock`. `run_folder` receives the process table.
    """

    def __init__(self, specs: Sequence[ServiceSpec], run_folder: Path) -> None:
        self._table_path = run_folder / TABLE_NAME
        self._identity = process_name(os.getpid()) or ProcessName(pid=os.getpid(), start_ticks=0)
        self._world = this_world()
        self._services = [SupervisedService(spec, self._write_table) for spec in specs]
        self._stop_asked = asyncio.Event()

    @property
    def rows(self) -> tuple[ServiceRow, ...]:
        return tuple(service.row for service in self._services)

    def ask_to_stop(self) -> None:
        """`run` ends every service, one after the other, and returns. Safe in a signal handler."""
        self._stop_asked.set()

    async def run(self) -> None:
        """Until `ask_to_stop`; cancelled, all services are ended at once, without an order.

        Ends what an earlier run left behind first. Raises `StaleProcessesError` if that fails.
        """
        stale = read_process_table(self._table_path)
        if stale is not None:
            await asyncio.to_thread(end_stale_processes, stale)
        self._write_table()
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(service.run()) for service in self._services]
            await self._stop_asked.wait()
            for service, run in zip(self._services, runs, strict=True):
                service.ask_to_stop()
                await asyncio.wait({run})

    def _write_table(self) -> None:
        table = ProcessTable(world=self._world, supervisor=self._identity, services=self.rows)
        try:
            write_process_table(self._table_path, table)
        except OSError as exc:
            # A full disk must not take the running service down.
            logger.warning("the process table could not be written: %s", exc)
