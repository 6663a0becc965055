"""app/supervise/guardian.py: real processes, really killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.supervise.guardian import read_stat
from app.supervise.service import GUARDIAN_FILE
from tests.app.processes import FAMILY, family_pids, is_running, until


@dataclass
class Guarded:
    """A guardian, our end of its lifeline, and the pid that it told."""

    process: subprocess.Popen[bytes]
    lifeline: socket.socket
    leader_pid: int


@pytest.fixture
def guard() -> Iterator[Callable[..., Guarded]]:
    started: list[Guarded] = []

    def start(*command: str, grace_s: float = 5.0) -> Guarded:
        ours, theirs = socket.socketpair()
        options = (f"--lifeline={theirs.fileno()}", f"--grace={grace_s}", "--")
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARDIAN_FILE), *options, *command],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        started.append(Guarded(process, ours, int(ours.recv(64))))
        return started[-1]

    yield start
    for guarded in started:
        guarded.lifeline.close()
        guarded.process.wait(10)


@pytest.mark.parametrize("status", [0, 3])
def test_it_exits_with_the_status_of_its_command(
    guard: Callable[..., Guarded], status: int
) -> None:
    assert guard(sys.executable, "-c", f"raise SystemExit({status})").process.wait(10) == status


def test_a_command_that_a_signal_ended_is_128_and_its_number(
    guard: Callable[..., Guarded],
) -> None:
    guarded = guard("sleep", "60")
    os.kill(guarded.leader_pid, signal.SIGKILL)
    assert guarded.process.wait(10) == 128 + signal.SIGKILL


def test_a_command_that_does_not_exist_is_127(guard: Callable[..., Guarded]) -> None:
    assert guard("/no/such/command").process.wait(10) == 127


def test_the_command_leads_a_session_of_its_own(guard: Callable[..., Guarded]) -> None:
    guarded = guard("sleep", "60")
    stat = read_stat(guarded.leader_pid)
    assert stat is not None
    assert stat.group_id == stat.session_id == guarded.leader_pid


def test_when_the_lifeline_closes_nothing_is_left_within_five_seconds(
    guard: Callable[..., Guarded], tmp_path: Path
) -> None:
    guarded = guard(sys.executable, "-c", FAMILY, str(tmp_path))
    pids = family_pids(tmp_path)
    guarded.lifeline.close()
    assert until(lambda: not any(map(is_running, pids)), 5.0)
    guarded.process.wait(5)


def test_when_the_command_ends_what_it_started_is_ended_too(
    guard: Callable[..., Guarded], tmp_path: Path
) -> None:
    guarded = guard(sys.executable, "-c", FAMILY, str(tmp_path))
    pids = family_pids(tmp_path)
    os.kill(pids[0], signal.SIGKILL)
    assert guarded.process.wait(10) == 128 + signal.SIGKILL
    assert not any(map(is_running, pids))


def test_told_to_stop_it_gives_the_command_time_to_finish(
    guard: Callable[..., Guarded], tmp_path: Path
) -> None:
    code = (
        "import pathlib, signal, sys, time\n"
        "def finish(*_):\n"
        "    time.sleep(0.3)\n"
        "    pathlib.Path(sys.argv[1], 'finished').touch()\n"
        "    sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, finish)\n"
        "pathlib.Path(sys.argv[1], 'pids').touch()\n"
        "time.sleep(60)\n"
    )
    guarded = guard(sys.executable, "-c", code, str(tmp_path))
    family_pids(tmp_path)
    guarded.process.terminate()
    assert guarded.process.wait(10) == 7
    assert (tmp_path / "finished").exists()


def test_a_command_that_ignores_the_request_is_killed_after_its_grace(
    guard: Callable[..., Guarded],
) -> None:
    guarded = guard("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", grace_s=0.3)
    time.sleep(0.3)
    guarded.process.terminate()
    assert guarded.process.wait(10) == 128 + signal.SIGKILL


def test_a_long_grace_is_cut_short_when_the_supervisor_dies_meanwhile(
    guard: Callable[..., Guarded],
) -> None:
    guarded = guard("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", grace_s=60.0)
    time.sleep(0.3)
    guarded.process.terminate()
    time.sleep(0.2)
    guarded.lifeline.close()
    assert guarded.process.wait(5) == 128 + signal.SIGKILL


def test_a_killed_guardian_takes_its_command_along(guard: Callable[..., Guarded]) -> None:
    guarded = guard("sleep", "60")
    guarded.process.kill()
    guarded.process.wait(5)
    assert until(lambda: not is_running(guarded.leader_pid), 5.0)
