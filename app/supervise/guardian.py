"""A small process between the supervisor and one service: nothing of the service outlives either.

Run by file path (`python -I -S guardian.py --lifeline FD --grace S -- COMMAND ...`) so that it is
up in some 30 ms: it imports nothing but the standard library. It starts the command in a session of
its own, tells the command's pid on the lifeline (a socket), and waits. When the command exits, the
lifeline closes (the supervisor is gone, also by kill -9) or SIGTERM comes, it ends every descendant
and exits with the command's status. Descendants that made sessions of their own are found too: the
kernel hands orphans to the guardian (PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LIFELINE_GRACE_S = 1.5
"""Without a supervisor, everything must be gone within 5 s."""
POLL_S = 0.02
EXIT_CANNOT_RUN = 127


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What /proc/PID/stat says of one process."""

    pid: int
    state: str
    parent_pid: int
    group_id: int
    session_id: int
    start_ticks: int
    """Clock ticks from boot to its start: with the pid, this names one process."""

    @property
    def is_running(self) -> bool:
        """A zombie is only an exit status that nobody has asked for."""
        return self.state not in {"Z", "X"}


def read_stat(pid: int) -> ProcessStat | None:
    """None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold anything, so fields are counted after its end.
    fields = text.rpartition(")")[2].split()
    return ProcessStat(
        pid=pid,
        state=fields[0],
        parent_pid=int(fields[1]),
        group_id=int(fields[2]),
        session_id=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def list_processes() -> list[ProcessStat]:
    """Every process that this one can see."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    stats = (read_stat(pid) for pid in pids)
    return [stat for stat in stats if stat is not None]


def running_descendants(root_pid: int) -> list[ProcessStat]:
    """Running children of `root_pid`, theirs, and so on."""
    children: dict[int, list[ProcessStat]] = {}
    for stat in list_processes():
        children.setdefault(stat.parent_pid, []).append(stat)
    found = list(children.get(root_pid, []))
    for stat in found:
        found.extend(children.get(stat.pid, []))
    return [stat for stat in found if stat.is_running]


def send_signal(pid: int, number: signal.Signals) -> None:
    """To a process that may be gone by now."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Guardian:
    """Runs one command; see the module."""

    def __init__(self, command: Sequence[str], lifeline: socket.socket, grace_s: float) -> None:
        self._command = command
        self._lifeline = lifeline
        self._grace_s = grace_s
        self._exit_status: int | None = None
        self._child_pid = 0
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_told_to_stop = False

    def run(self) -> int:
        """The command's exit status, once nothing of it is left."""
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._listen_to_signals()
        self._start_child()
        self._tell_pid()
        self._end_child(self._wait_for_an_end())
        self._end_descendants()
        return 0 if self._exit_status is None else self._exit_status

    def _listen_to_signals(self) -> None:
        signal.set_wakeup_fd(self._wake_writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self._is_told_to_stop = True

    def _start_child(self) -> None:
        guardian_pid = os.getpid()
        running, not_running_yet = os.pipe2(os.O_CLOEXEC)
        self._child_pid = os.fork()
        if self._child_pid == 0:
            _become(self._command, guardian_pid)
        # Closed by the child's exec: from then on its pid names its group and session too.
        os.close(not_running_yet)
        os.read(running, 1)
        os.close(running)

    def _tell_pid(self) -> None:
        # If the supervisor is gone already, the lifeline says so at the first look.
        with contextlib.suppress(OSError):
            self._lifeline.sendall(f"{self._child_pid}\n".encode())

    def _wait_for_an_end(self) -> float:
        """Seconds that the child gets to end by itself: 0 when it has ended."""
        while not self._has_exited():
            if self._is_told_to_stop:
                return self._grace_s
            if self._is_abandoned(wait_s=None):
                return LIFELINE_GRACE_S
        return 0.0

    def _end_child(self, grace_s: float) -> None:
        """Asks the command only: its own helpers are its business while it may still finish."""
        if self._has_exited():
            return
        send_signal(self._child_pid, signal.SIGTERM)
        deadline_s = time.monotonic() + grace_s
        is_abandoned = False
        while not self._has_exited() and time.monotonic() < deadline_s:
            if is_abandoned:
                time.sleep(POLL_S)
            elif self._is_abandoned(wait_s=POLL_S):
                is_abandoned = True
                deadline_s = min(deadline_s, time.monotonic() + LIFELINE_GRACE_S)

    def _is_abandoned(self, wait_s: float | None) -> bool:
        """The supervisor closed its end; waits for that or for a signal, at most `wait_s`."""
        lifeline = self._lifeline.fileno()
        readable = select.select([self._wake_reader, lifeline], [], [], wait_s)[0]
        if self._wake_reader in readable:
            os.read(self._wake_reader, 4096)
        return lifeline in readable and not self._received()

    def _received(self) -> bytes:
        try:
            return self._lifeline.recv(4096)
        except OSError:
            return b""

    def _end_descendants(self) -> None:
        """Again and again, as a process may start another one while it is being ended."""
        while left := running_descendants(os.getpid()):
            for stat in left:
                send_signal(stat.pid, signal.SIGKILL)
            time.sleep(POLL_S)
            self._reap()

    def _has_exited(self) -> bool:
        self._reap()
        return self._exit_status is not None

    def _reap(self) -> None:
        """Collect every exit status, also of adopted orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child_pid:
                code = os.waitstatus_to_exitcode(status)
                self._exit_status = code if code >= 0 else 128 - code


def _become(command: Sequence[str], guardian_pid: int) -> None:
    """In the forked child: run `command` instead. Never returns."""
    os.setsid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The guardian may have died before the line above.
    if os.getppid() != guardian_pid:
        os._exit(EXIT_CANNOT_RUN)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except OSError as exc:
        sys.stderr.write(f"cannot run {command[0]}: {exc}\n")
        sys.stderr.flush()
        os._exit(EXIT_CANNOT_RUN)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs one command and ends all it started.")
    parser.add_argument("--lifeline", type=int, required=True, help="descriptor of a socket")
    parser.add_argument("--grace", type=float, required=True, help="seconds between TERM and KILL")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    lifeline = socket.socket(fileno=arguments.lifeline)
    lifeline.set_inheritable(False)
    return Guardian(arguments.command, lifeline, arguments.grace).run()


if __name__ == "__main__":
    sys.exit(main())
