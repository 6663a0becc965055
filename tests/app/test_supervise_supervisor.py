"""app/supervise/supervisor.py and service.py: restarts, stops, stale processes, the lock."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from app.supervise.process_table import (
    TABLE_NAME,
    ProcessName,
    ProcessTable,
    ServiceRow,
    ServiceState,
    read_process_table,
    write_process_table,
)
from app.supervise.service import RestartPolicy, ServiceSpec
from app.supervise.stale_processes import end_stale_processes, is_alive, process_name, this_world
from app.supervise.supervisor import AlreadyRunningError, Supervisor, supervisor_lock
from tests.app.processes import FAMILY, family_pids, is_running, until

pytestmark = pytest.mark.anyio

FAST = RestartPolicy(first_delay_s=0.05, longest_delay_s=0.2, check_interval_s=0.05)
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
WAIT_S = 20.0

SUPERVISE = """
import asyncio, pathlib, sys
from app.supervise.supervisor import Supervisor, supervisor_lock
from tests.app.test_supervise_supervisor import family_spec
async def main(folder):
    with supervisor_lock(folder):
        await Supervisor([family_spec(folder)], folder).run()
asyncio.run(main(pathlib.Path(sys.argv[1])))
"""
"""A supervisor in a process of its own."""


async def healthy() -> bool:
    return True


async def ill() -> bool:
    return False


def spec(
    name: str,
    *command: str,
    is_healthy: Callable[[], Awaitable[bool]] = healthy,
    start_timeout_s: float = WAIT_S,
    log_file: Path | None = None,
) -> ServiceSpec:
    return ServiceSpec(
        name=name,
        command=command,
        environment=ENVIRONMENT,
        address=f"test:{name}",
        is_healthy=is_healthy,
        start_timeout_s=start_timeout_s,
        stop_grace_s=2.0,
        log_file=log_file,
        restart=FAST,
    )


def family_spec(folder: Path) -> ServiceSpec:
    return spec("family", sys.executable, "-c", FAMILY, str(folder))


@contextlib.asynccontextmanager
async def running(folder: Path, *specs: ServiceSpec) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(specs, folder)
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor
    finally:
        supervisor.ask_to_stop()
        await task


async def row_when(
    supervisor: Supervisor, condition: Callable[[ServiceRow], bool], name: str = "it"
) -> ServiceRow:
    """The service's row as soon as the condition holds for it."""
    async with asyncio.timeout(WAIT_S):
        while True:
            for row in supervisor.rows:
                if row.name == name and condition(row):
                    return row
            await asyncio.sleep(0.01)


def is_ready(row: ServiceRow) -> bool:
    return row.state is ServiceState.READY


def is_ready_again(row: ServiceRow) -> bool:
    return is_ready(row) and row.restarts > 0


def leader_pid(row: ServiceRow) -> int:
    assert row.leader is not None
    return row.leader.pid


async def test_the_table_says_what_runs_and_later_that_it_stopped(tmp_path: Path) -> None:
    async with running(tmp_path, spec("it", "sleep", "60")) as supervisor:
        row = await row_when(supervisor, is_ready)
        table = read_process_table(tmp_path / TABLE_NAME)
        assert table is not None
        assert table.service("it") == row
        assert is_running(leader_pid(row))
        assert row.address == "test:it"
    table = read_process_table(tmp_path / TABLE_NAME)
    assert table is not None
    assert [row.state for row in table.services] == [ServiceState.STOPPED]
    assert not is_running(leader_pid(row))


@pytest.mark.parametrize("status", [0, 3])
async def test_an_exit_is_a_death_whatever_its_code(tmp_path: Path, status: int) -> None:
    script = f"test -e {tmp_path}/again && exec sleep 60; touch {tmp_path}/again; exit {status}"
    async with running(tmp_path, spec("it", "sh", "-c", script)) as supervisor:
        row = await row_when(supervisor, is_ready_again)
    assert row.last_end == f"exited with code {status}"


async def test_a_killed_service_is_started_again_and_leaves_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, family_spec(tmp_path)) as supervisor:
        await row_when(supervisor, is_ready, "family")
        pids = await asyncio.to_thread(family_pids, tmp_path)
        os.kill(pids[0], signal.SIGKILL)
        row = await row_when(supervisor, is_ready_again, "family")
        assert not any(map(is_running, pids))
    assert row.last_end == "ended by signal 9"


async def test_a_killed_guardian_is_noticed_and_its_group_ended(tmp_path: Path) -> None:
    async with running(tmp_path, family_spec(tmp_path)) as supervisor:
        row = await row_when(supervisor, is_ready, "family")
        itself, same_group, other_session = await asyncio.to_thread(family_pids, tmp_path)
        assert row.guardian is not None
        os.kill(row.guardian.pid, signal.SIGKILL)
        row = await row_when(supervisor, is_ready_again, "family")
        assert not is_running(itself)
        assert not is_running(same_group)
        assert row.last_end == "its guardian was ended by signal 9"
    # Nobody is left who could know of this one.
    os.kill(other_session, signal.SIGKILL)


async def test_a_service_that_fails_its_checks_is_started_again(tmp_path: Path) -> None:
    is_well = [True, True, False, False, False]

    async def is_healthy() -> bool:
        return is_well.pop(0) if is_well else True

    it = spec("it", "sleep", "60", is_healthy=is_healthy)
    async with running(tmp_path, it) as supervisor:
        row = await row_when(supervisor, is_ready_again)
    assert row.last_end == "failed 3 health checks in a row"


async def test_a_service_that_is_never_ready_is_started_again(tmp_path: Path) -> None:
    it = spec("it", "sleep", "60", is_healthy=ill, start_timeout_s=0.2)
    async with running(tmp_path, it) as supervisor:
        row = await row_when(supervisor, lambda row: row.restarts >= 2)
    assert row.last_end == "not ready within 0.2 s"


async def test_a_command_that_does_not_exist_is_tried_again_and_again(tmp_path: Path) -> None:
    async with running(tmp_path, spec("it", "/no/such/command", is_healthy=ill)) as supervisor:
        row = await row_when(supervisor, lambda row: row.restarts >= 3)
    assert row.last_end == "exited with code 127"


def test_the_delay_doubles_up_to_its_bound() -> None:
    delays_s = [RestartPolicy().delay_s(n) for n in (1, 2, 3, 4, 5, 6, 7, 5000)]
    assert delays_s == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


async def test_services_are_ended_in_the_order_given(tmp_path: Path) -> None:
    script = (
        "trap 'echo {0} >> {1}/order; exit 0' TERM; touch {1}/{0}; while :; do sleep 0.05; done"
    )
    names = ("first", "second", "third")
    specs = [spec(name, "sh", "-c", script.format(name, tmp_path)) for name in names]
    async with running(tmp_path, *specs):
        for name in names:
            assert await asyncio.to_thread(until, (tmp_path / name).exists)
    assert (tmp_path / "order").read_text().split() == [*names]


async def test_a_log_file_receives_what_the_service_says(tmp_path: Path) -> None:
    log_file = tmp_path / "it.log"
    it = spec("it", "sh", "-c", "echo hello; exec sleep 60", log_file=log_file)
    async with running(tmp_path, it) as supervisor:
        await row_when(supervisor, is_ready)
        assert await asyncio.to_thread(until, lambda: "hello" in log_file.read_text())


def supervised_family(folder: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    process = subprocess.Popen([sys.executable, "-c", SUPERVISE, str(folder)])
    return process, family_pids(folder)


def test_a_killed_supervisor_leaves_nothing_after_five_seconds(tmp_path: Path) -> None:
    supervisor, pids = supervised_family(tmp_path)
    supervisor.kill()
    supervisor.wait(5)
    assert until(lambda: not any(map(is_running, pids)), 5.0)


def test_stale_processes_of_a_killed_run_are_ended_at_the_next_start(tmp_path: Path) -> None:
    supervisor, pids = supervised_family(tmp_path)
    table = read_process_table(tmp_path / TABLE_NAME)
    assert table is not None
    row = table.service("family")
    assert row is not None
    assert row.guardian is not None
    # Stopped, the guardian cannot do its work: the case that the next start is there for.
    os.kill(row.guardian.pid, signal.SIGSTOP)
    supervisor.kill()
    supervisor.wait(5)
    assert end_stale_processes(table) > 0
    assert until(lambda: not any(map(is_running, pids)), 5.0)


@contextlib.contextmanager
def orphaned_group() -> Iterator[tuple[ProcessName, int]]:
    """The name of a dead leader, and the pid of a member of its group that lives on."""
    code = "sleep 60 & echo $!; exec sleep 60"
    leader = subprocess.Popen(
        ["sh", "-c", code], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    assert leader.stdout is not None
    with leader.stdout as output:
        member_pid = int(output.readline())
    name = process_name(leader.pid)
    assert name is not None
    leader.kill()
    leader.wait()
    try:
        yield name, member_pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member_pid, signal.SIGKILL)


def table_of(leader: ProcessName, world: str) -> ProcessTable:
    """As a supervisor that is gone would have left it."""
    row = ServiceRow(
        name="it", state=ServiceState.READY, address="test:it", since=0.0, leader=leader
    )
    gone = ProcessName(pid=os.getpid(), start_ticks=1)
    return ProcessTable(world=world, supervisor=gone, services=(row,))


def test_a_group_without_its_leader_is_still_known_as_ours() -> None:
    with orphaned_group() as (leader, member_pid):
        assert end_stale_processes(table_of(leader, this_world())) == 1
        assert until(lambda: not is_running(member_pid))


def test_a_table_of_another_boot_or_container_ends_nothing() -> None:
    with orphaned_group() as (leader, member_pid):
        assert end_stale_processes(table_of(leader, "another boot")) == 0
        assert is_running(member_pid)


def test_a_pid_that_was_given_to_another_process_is_left_alone() -> None:
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        reused = ProcessName(pid=other.pid, start_ticks=1)
        assert end_stale_processes(table_of(reused, this_world())) == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_living_supervisors_processes_are_not_stale() -> None:
    ours = process_name(os.getpid())
    assert ours is not None
    with orphaned_group() as (leader, member_pid):
        table = table_of(leader, this_world()).model_copy(update={"supervisor": ours})
        assert end_stale_processes(table) == 0
        assert is_running(member_pid)


def test_two_supervisors_on_one_folder_are_refused(tmp_path: Path) -> None:
    supervisor, _ = supervised_family(tmp_path)
    try:
        message = f"process {supervisor.pid}.*framegate stop"
        with pytest.raises(AlreadyRunningError, match=message), supervisor_lock(tmp_path):
            pass
    finally:
        supervisor.kill()
        supervisor.wait(5)
    with supervisor_lock(tmp_path):
        pass


def test_a_table_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / TABLE_NAME
    assert read_process_table(path) is None
    path.write_text('{"world": ')
    assert read_process_table(path) is None


def test_a_process_that_has_ended_is_not_alive() -> None:
    process = subprocess.Popen(["sleep", "60"])
    name = process_name(process.pid)
    assert name is not None
    assert is_alive(name)
    process.kill()
    assert until(lambda: not is_alive(name))
    process.wait()


def test_a_written_table_reads_the_same(tmp_path: Path) -> None:
    table = table_of(ProcessName(pid=7, start_ticks=8), "here")
    write_process_table(tmp_path / TABLE_NAME, table)
    assert read_process_table(tmp_path / TABLE_NAME) == table
