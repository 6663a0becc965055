"""One supervised service: started, watched, ended and started again, for as long as we run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.supervise import guardian
from app.supervise.process_table import ProcessName, ServiceRow, ServiceState
from app.supervise.stale_processes import StaleProcessesError, kill_group_and_wait, process_name
from observability.logs import log_event
from observability.names import Event

GUARDIAN_FILE = Path(guardian.__file__)
GUARDIAN_START_TIMEOUT_S = 20.0
STOP_MARGIN_S = 5.0
"""What a guardian gets beyond the service's grace to end the rest and itself."""
MAX_LOG_BYTES = 16 * 1024 * 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """A service that ends is always started again; the longer it keeps failing, the later."""

    first_delay_s: float = 1.0
    longest_delay_s: float = 30.0
    stable_after_s: float = 60.0
    """Ready for so long, its failures are forgotten."""
    check_interval_s: float = 1.0
    starting_interval_s: float = 0.2
    failed_checks: int = 3
    """So many in a row, and a ready service counts as dead."""

    def delay_s(self, num_failures: int) -> float:
        """Before the start after the `num_failures`-th failure in a row (1, 2, ...)."""
        return min(self.first_delay_s * 2.0 ** min(num_failures - 1, 30), self.longest_delay_s)


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """What to run and how to know that it works."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    """The whole environment of the process."""
    address: str
    is_healthy: Callable[[], Awaitable[bool]]
    """Never raises; bounded in time by itself."""
    start_timeout_s: float
    stop_grace_s: float = 5.0
    inherited_fds: tuple[int, ...] = ()
    log_file: Path | None = None
    """None: the service writes to our own stderr."""
    restart: RestartPolicy = RestartPolicy()


@dataclass(frozen=True, slots=True)
class _Running:
    """A live guardian, our end of its lifeline, and the service's first process."""

    guardian: asyncio.subprocess.Process
    lifeline: socket.socket
    leader: ProcessName


class SupervisedService:
    """Runs one `ServiceSpec`. `changed` is called after every change of `row`."""

    def __init__(self, spec: ServiceSpec, changed: Callable[[], None]) -> None:
        self._spec = spec
        self._changed = changed
        self._stopping = asyncio.Event()
        self._num_failures = 0
        self.row = ServiceRow(
            name=spec.name, state=ServiceState.STARTING, address=spec.address, since=time.time()
        )

    def ask_to_stop(self) -> None:
        """`run` ends the service, which gets its grace, and returns."""
        self._stopping.set()

    async def run(self) -> None:
        """Until `ask_to_stop`; cancelled, it ends the service at once."""
        while not self._stopping.is_set():
            reason = await self._run_once()
            if self._stopping.is_set():
                break
            self._num_failures += 1
            delay_s = self._spec.restart.delay_s(self._num_failures)
            log_event(
                logger,
                Event.PROCESS_DIED,
                level=logging.ERROR,
                process=self._spec.name,
                reason=reason,
                restart_in_s=delay_s,
            )
            self._update(
                state=ServiceState.RESTARTING,
                restarts=self.row.restarts + 1,
                last_end=reason,
                guardian=None,
                leader=None,
            )
            await self._wait_for_stop(delay_s)
        self._update(state=ServiceState.STOPPED, guardian=None, leader=None)

    async def _run_once(self) -> str:
        """One life of the service; why it ended. Nothing of it is left afterwards."""
        try:
            running = await self._start()
        except (OSError, TimeoutError, ValueError) as exc:
            return f"could not be started: {exc}"
        try:
            return await self._watch(running)
        finally:
            await self._end(running)

    async def _start(self) -> _Running:
        ours, theirs = socket.socketpair()
        command = (sys.executable, "-I", "-S", str(GUARDIAN_FILE))
        options = (f"--lifeline={theirs.fileno()}", f"--grace={self._spec.stop_grace_s}", "--")
        try:
            with theirs, _log_output(self._spec.log_file) as output:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    *options,
                    *self._spec.command,
                    env=dict(self._spec.environment),
                    pass_fds=(theirs.fileno(), *self._spec.inherited_fds),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        return await self._introduced(process, ours)

    async def _introduced(
        self, process: asyncio.subprocess.Process, lifeline: socket.socket
    ) -> _Running:
        """Waits until the guardian has told which process it started."""
        lifeline.setblocking(False)
        try:
            async with asyncio.timeout(GUARDIAN_START_TIMEOUT_S):
                told = await asyncio.get_running_loop().sock_recv(lifeline, 64)
            leader = process_name(int(told)) or ProcessName(pid=int(told), start_ticks=0)
        except BaseException:
            # The guardian takes a closed lifeline as our end, and ends what it may have started.
            lifeline.close()
            raise
        log_event(logger, Event.PROCESS_STARTED, process=self._spec.name, pid=leader.pid)
        self._update(state=ServiceState.STARTING, guardian=process_name(process.pid), leader=leader)
        return _Running(process, lifeline, leader)

    async def _watch(self, running: _Running) -> str:
        """Until it ends, is found ill, or `ask_to_stop`; says which."""
        ended = asyncio.ensure_future(running.guardian.wait())
        ill = asyncio.ensure_future(self._until_ill())
        stop = asyncio.ensure_future(self._stopping.wait())
        tasks = (ended, ill, stop)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return _exit_text(ended.result())
            return ill.result() if ill.done() else "stopped"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_ill(self) -> str:
        policy = self._spec.restart
        deadline_s = time.monotonic() + self._spec.start_timeout_s
        while not await self._spec.is_healthy():
            if time.monotonic() > deadline_s:
                return f"not ready within {self._spec.start_timeout_s:g} s"
            await asyncio.sleep(policy.starting_interval_s)
        self._update(state=ServiceState.READY)
        ready_since_s, num_failed = time.monotonic(), 0
        while num_failed < policy.failed_checks:
            await asyncio.sleep(policy.check_interval_s)
            num_failed = 0 if await self._spec.is_healthy() else num_failed + 1
            if time.monotonic() - ready_since_s > policy.stable_after_s:
                self._num_failures = 0
        return f"failed {num_failed} health checks in a row"

    async def _end(self, running: _Running) -> None:
        """The guardian ends all of it; where the guardian is gone or hangs, we end its group."""
        if running.guardian.returncode is None:
            running.guardian.terminate()
        try:
            async with asyncio.timeout(self._spec.stop_grace_s + STOP_MARGIN_S):
                await running.guardian.wait()
        except TimeoutError:
            running.guardian.kill()
            await running.guardian.wait()
        finally:
            # Closing it is what ends the service also when this task is being cancelled.
            running.lifeline.close()
        try:
            await asyncio.to_thread(kill_group_and_wait, running.leader)
        except StaleProcessesError as exc:
            logger.error("%s: %s", self._spec.name, exc)  # noqa: TRY400

    async def _wait_for_stop(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._stopping.wait()

    def _update(self, **changes: object) -> None:
        if changes.get("state", self.row.state) is not self.row.state:
            changes["since"] = time.time()
        self.row = self.row.model_copy(update=changes)
        self._changed()


def _exit_text(status: int) -> str:
    """A guardian passes a signal on as 128 + its number, as shells do."""
    if status < 0:
        return f"its guardian was ended by signal {-status}"
    return f"ended by signal {status - 128}" if status > 128 else f"exited with code {status}"


@contextlib.contextmanager
def _log_output(file: Path | None) -> Iterator[int | None]:
    """A descriptor to append to, the file put aside when it has grown large; None without one."""
    if file is None:
        yield None
        return
    if file.exists() and file.stat().st_size > MAX_LOG_BYTES:
        file.replace(file.with_name(file.name + ".1"))
    with file.open("ab") as opened:
        yield opened.fileno()
