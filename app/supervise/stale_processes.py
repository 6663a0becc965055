"""Ends what an earlier run left behind, and only that."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path

from app.supervise.guardian import (
    ProcessStat,
    list_processes,
    read_stat,
    running_descendants,
    send_signal,
)
from app.supervise.process_table import ProcessName, ProcessTable, ServiceRow

GONE_TIMEOUT_S = 10.0
POLL_S = 0.02

logger = logging.getLogger(__name__)


class StaleProcessesError(RuntimeError):
    """Processes of an earlier run do not end, not even when killed."""


def this_world() -> str:
    """Where pids and start times of this process are valid: the boot and the pid namespace.

    A data folder can outlive both: after a restart of the machine or container, pid 12 is another.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def process_name(pid: int) -> ProcessName | None:
    """None when there is no such process."""
    stat = read_stat(pid)
    if stat is None:
        return None
    return ProcessName(pid=stat.pid, start_ticks=stat.start_ticks)


def is_alive(name: ProcessName) -> bool:
    """The very same process still runs."""
    stat = read_stat(name.pid)
    return stat is not None and stat.is_running and stat.start_ticks == name.start_ticks


def group_members(leader: ProcessName) -> list[ProcessStat]:
    """Running members of the group and session that `leader` started, also after its death.

    The kernel gives no new process a pid that is still the id of a group, so a running process with
    the leader's pid but another start time means that the whole group has gone.
    """
    holder = read_stat(leader.pid)
    if holder is not None and holder.start_ticks != leader.start_ticks:
        return []
    return [
        stat
        for stat in list_processes()
        if leader.pid in {stat.group_id, stat.session_id}
        and stat.start_ticks >= leader.start_ticks
        and stat.is_running
    ]


def kill_group_and_wait(leader: ProcessName) -> int:
    """Kill the group, what its members started elsewhere too; how many there were. Blocks.

    Raises `StaleProcessesError` after 10 s.
    """
    killed: set[int] = set()
    deadline_s = time.monotonic() + GONE_TIMEOUT_S
    while members := group_members(leader):
        if time.monotonic() > deadline_s:
            left = ", ".join(str(stat.pid) for stat in members)
            raise StaleProcessesError(f"Processes {left} do not end; end them by hand.")
        # Descendants first: once its parent is gone, who started a process cannot be told.
        for stat in [d for member in members for d in running_descendants(member.pid)] + members:
            killed.add(stat.pid)
            send_signal(stat.pid, signal.SIGKILL)
        time.sleep(POLL_S)
    return len(killed)


def end_stale_processes(table: ProcessTable) -> int:
    """End the processes of a run whose supervisor is gone; how many. Blocks until they are gone."""
    if table.world != this_world() or is_alive(table.supervisor):
        return 0
    return sum(_end_service(row) for row in table.services)


def _end_service(row: ServiceRow) -> int:
    num_ended = 0
    if row.guardian is not None and is_alive(row.guardian) and row.guardian.pid != os.getpid():
        for stat in running_descendants(row.guardian.pid):
            send_signal(stat.pid, signal.SIGKILL)
        send_signal(row.guardian.pid, signal.SIGKILL)
        num_ended += 1
    if row.leader is not None:
        num_ended += kill_group_and_wait(row.leader)
    if num_ended:
        logger.warning("ended %d processes of an earlier run of %s", num_ended, row.name)
    return num_ended
