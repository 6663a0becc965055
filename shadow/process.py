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
        """The next result. Raises `ProcessEndedError`, `OverrunError`.

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
        waited_s = self._run_queue_wait_s()
        while not self._connection.poll(poll_s):
            elapsed_s = time.monotonic() - started_s
            starved_s = self._run_queue_wait_s() - waited_s
            if elapsed_s > patience_s or elapsed_s - starved_s > deadline_s:
                raise OverrunError

    def _run_queue_wait_s(self) -> float:
        """Seconds that its main thread was ready to run and did not; 0 where nobody counts them."""
        try:
            text = Path(f"/proc/{self._popen.pid}/schedstat").read_text(encoding="ascii")
            return int(text.split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0

    def _end_text(self) -> str:
        self.kill()
        code = self._popen.returncode
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return f"it ended its process ({how})"
