"""The gateway's hold on the shadow's process: starts it, talks to it, and ends it for certain."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from pydantic import ValidationError

from shadow import niced, worker
from shadow.order import Greeting, WorkOrder, WorkResult

MAX_RESULT_BYTES = 4 * 1024 * 1024
POLL_S = 0.25
"""How often a late process is looked at."""


class ProcessEndedError(Exception):
    """The process is gone, or what it says is no result; the text says which."""


class OverrunError(Exception):
    """Nothing came within the deadline."""


class StarvedError(Exception):
    """Nothing came, because the process was hardly ever given a processor."""


class ShadowProcess:
    """One running process in a process group of its own. Used from one thread; `kill` from any."""

    def __init__(self, greeting: Greeting) -> None:
        """Start it; it imports while this returns. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._popen = subprocess.Popen(
                [
                    *(sys.executable, "-P", str(Path(niced.__file__))),
                    *(str(theirs.fileno()), str(os.getpid()), worker.__name__),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,
            )
        self._connection = Connection(ours.detach())
        with suppress(OSError):  # it is gone already: the first `receive` says so
            self._connection.send(sys.path)
            self._connection.send(greeting)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def send(self, order: WorkOrder) -> None:
        """Raises `ProcessEndedError`."""
        try:
            self._connection.send(order)
        except OSError as exc:
            raise ProcessEndedError(self._end_text()) from exc

    def receive(self, deadline_s: float, patience_s: float) -> WorkResult:
        """The next result. Raises `ProcessEndedError`, `OverrunError`, `StarvedError`.

        The deadline's clock stands still while the process waits for a processor, as it yields to
        everyone; `patience_s` bounds the whole wait.
        """
        try:
            self._wait(deadline_s, patience_s)
            return worker.RESULT.validate_json(self._connection.recv_bytes(MAX_RESULT_BYTES))
        except (EOFError, OSError) as exc:
            raise ProcessEndedError(self._end_text()) from exc
        except ValidationError as exc:
            raise ProcessEndedError("it sent something that is no result") from exc

    def kill(self) -> None:
        """End it and everything in its group, whatever they are doing. Again: does nothing."""
        if self._popen.returncode is None:
            # Before it is waited for: until then nobody else can have its number.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait()

    def close(self) -> None:
        """`kill`, and let go of the connection. By the thread that uses it."""
        self.kill()
        self._connection.close()

    def _wait(self, deadline_s: float, patience_s: float) -> None:
        started_s = time.monotonic()
        poll_s = min(POLL_S, deadline_s)
        if self._connection.poll(poll_s):
            return
        # Looked at from here on only: most results are there by now.
        used_s, processor_s = poll_s, self._processor_s()
        while not self._connection.poll(poll_s):
            before_s, processor_s = processor_s, self._processor_s()
            used_s += processor_s - before_s if self._wants_processor() else poll_s
            if used_s > deadline_s:
                raise OverrunError
            if time.monotonic() - started_s > patience_s:
                raise StarvedError

    def _processor_s(self) -> float:
        """Seconds that its main thread has run; always 0 where nobody counts them."""
        # Its wait for a processor is counted beside them, but only once that has ended.
        text = self._proc_text("schedstat")
        return int(text.split()[0]) / 1e9 if text else 0.0

    def _wants_processor(self) -> bool:
        """Its main thread runs, or would if it were let."""
        # The name in parentheses may hold anything, so the state is looked for after its end.
        return self._proc_text("stat").rpartition(")")[2].split()[:1] == ["R"]

    def _proc_text(self, name: str) -> str:
        try:
            return Path(f"/proc/{self._popen.pid}/{name}").read_text(encoding="utf-8")
        except OSError:
            return ""

    def _end_text(self) -> str:
        self.kill()
        code = self._popen.returncode
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return f"it ended its process ({how})"
