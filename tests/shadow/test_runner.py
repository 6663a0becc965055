"""The shadow's process under samplers that harm it: nothing waits, nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue

import psutil
import pytest

from app.sampler_breaker import BreakerRule, SamplerBreaker
from observability.shadow_names import ShadowShed
from shadow.niced import NICENESS
from shadow.order import Greeting, SideResult, WorkOrder, WorkResult
from shadow.runner import RunnerLimits, RunnerParts, ShadowRunner
from tests.child_processes import child_processes
from tests.shadow.made_video import open_nothing, order
from tests.shadow.rogues import TARGETS

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 120.0
DEADLINE_S = 1.0


@dataclass
class Told:
    """A `Reports` that remembers."""

    queue: list[int] = field(default_factory=list)
    num_restarts: int = 0
    failures: list[str] = field(default_factory=list)

    def queue_is(self, num_waiting: int) -> None:
        self.queue.append(num_waiting)

    def restarted(self) -> None:
        self.num_restarts += 1

    def failed(self, what: str, error: Exception) -> None:
        self.failures.append(f"{what}: {error}")


@dataclass
class Shadow:
    runner: ShadowRunner
    told: Told
    outcomes: Queue[WorkResult | ShadowShed] = field(default_factory=Queue)
    num_starved: int = 0

    def offer(self, one: WorkOrder) -> ShadowShed | None:
        return self.runner.offer(one, self.outcomes.put)

    def outcome(self, one: WorkOrder) -> WorkResult | ShadowShed:
        assert self.offer(one) is None
        return self.outcomes.get(timeout=WAIT_S)

    def unstarved(self, one: WorkOrder) -> WorkResult | ShadowShed:
        """Tried again where a busy machine left the process without a processor."""
        outcome = self.outcome(one)
        while outcome is ShadowShed.LOAD:
            self.num_starved += 1
            assert self.num_starved < 5
            outcome = self.outcome(one)
        return outcome

    def side(self, one: WorkOrder) -> SideResult:
        result = self.unstarved(one)
        assert isinstance(result, WorkResult)
        assert result.shadow is not None
        return result.shadow


@pytest.fixture
def make_shadow() -> Iterator[Callable[..., Shadow]]:
    made: list[Shadow] = []
    others = child_processes()

    def make(
        *,
        is_loaded: bool = False,
        queue_size: int = 8,
        deadline_s: float = DEADLINE_S,
        rule: BreakerRule | None = None,
    ) -> Shadow:
        told = Told()
        parts = RunnerParts(
            limits=RunnerLimits(queue_size, deadline_s, 10 * deadline_s),
            greeting=Greeting(TARGETS),
            resting=SamplerBreaker(rule or BreakerRule(max_overruns=1000), time.monotonic),
            reports=told,
            is_loaded=lambda: is_loaded,
        )
        made.append(Shadow(ShadowRunner(parts), told))
        return made[-1]

    yield make
    for shadow in made:
        shadow.runner.close()
    assert child_processes() <= others


@pytest.fixture
def shadow(make_shadow: Callable[..., Shadow]) -> Shadow:
    return make_shadow()


def test_nothing_runs_before_the_first_offer(shadow: Shadow) -> None:
    assert shadow.runner.pid is None


def test_a_comparison_is_carried_out_in_a_niced_process_of_its_own(shadow: Shadow) -> None:
    result = shadow.outcome(order("bolt"))
    assert isinstance(result, WorkResult)
    assert result.differences is not None
    pid = shadow.runner.pid
    assert pid is not None
    for thread in Path(f"/proc/{pid}/task").iterdir():
        assert os.getpriority(os.PRIO_PROCESS, int(thread.name)) == NICENESS
    assert os.getpgid(pid) == pid
    shadow.outcome(order("aks"))
    assert shadow.runner.pid == pid
    assert shadow.told.num_restarts == 0


@pytest.mark.parametrize(
    ("sampler_id", "kind", "is_killed"),
    [
        ("raising", "raised", False),
        ("floats", "contract", False),
        ("exiting", "raised", False),
        ("sleeping", "deadline", True),
        ("spinning", "deadline", True),
        ("dying", "raised", True),
        ("scribbling", "raised", True),
    ],
)
def test_a_rogue_fails_alone_and_the_next_comparison_succeeds(
    shadow: Shadow, sampler_id: str, kind: str, is_killed: bool
) -> None:
    failed = shadow.side(order(sampler_id))
    assert failed.failure_kind == kind
    assert shadow.told.num_restarts == int(is_killed) + shadow.num_starved
    assert shadow.side(order("bolt")).failure_kind is None
    assert shadow.told.failures == []


def test_a_rogue_that_babbles_costs_at_most_its_own_comparison(shadow: Shadow) -> None:
    shadow.outcome(order("babbling"))
    assert shadow.side(order("bolt")).failure_kind is None


def test_a_rogue_that_leaves_a_spinning_thread_is_survived(shadow: Shadow) -> None:
    shadow.outcome(order("lingering"))
    assert shadow.side(order("bolt")).failure_kind is None


def test_the_children_of_a_killed_sampler_go_with_it(shadow: Shadow, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    assert shadow.side(order("forking", query=str(note))).failure_kind == "deadline"
    assert not is_running(int(note.read_text()))


def test_a_control_that_fails_when_called_again_sheds_the_comparison(shadow: Shadow) -> None:
    assert shadow.unstarved(order("bolt", "raising")) is ShadowShed.CONTROL_FAILED
    assert shadow.unstarved(order("bolt", "sleeping")) is ShadowShed.CONTROL_FAILED


def test_a_video_that_is_gone_sheds_the_comparison(shadow: Shadow) -> None:
    assert shadow.outcome(order("bolt", open_video=open_nothing)) is ShadowShed.VIDEO_GONE


def test_under_load_what_waits_is_shed(make_shadow: Callable[..., Shadow]) -> None:
    busy = make_shadow(is_loaded=True)
    assert busy.outcome(order("bolt")) is ShadowShed.LOAD
    assert busy.runner.pid is None


HOG = "import os; os.sched_setaffinity(0, {%d})\nwhile True: pass"


def test_a_process_that_is_kept_from_running_is_not_the_sampler_s_fault(
    make_shadow: Callable[..., Shadow],
) -> None:
    shadow = make_shadow(deadline_s=0.4)
    assert isinstance(shadow.unstarved(order("counting")), WorkResult)
    pid, core = shadow.runner.pid, min(os.sched_getaffinity(0))
    assert pid is not None
    os.sched_setaffinity(pid, {core})
    with subprocess.Popen([sys.executable, "-c", HOG % core]) as hog:
        try:
            time.sleep(0.3)
            outcome = shadow.outcome(order("counting"))
        finally:
            hog.kill()
    # An idle task gets some 0.3 % of a core that another one wants: it ends in time, or does not.
    if isinstance(outcome, WorkResult):
        assert outcome.shadow is not None
        assert outcome.shadow.failure_kind is None
        assert outcome.shadow.latency_s < DEADLINE_S
    else:
        assert outcome is ShadowShed.LOAD
    assert shadow.side(order("counting")).failure_kind is None


def test_a_full_queue_sheds_at_once(make_shadow: Callable[..., Shadow]) -> None:
    small = make_shadow(queue_size=2)
    started = time.perf_counter()
    refused = [small.offer(order("sleeping")) for _ in range(8)]
    assert time.perf_counter() - started < 1.0
    # One may have been taken out of the queue by the thread already.
    assert refused.count(ShadowShed.QUEUE_FULL) >= 5
    assert max(small.told.queue) <= 2


def test_who_overruns_again_and_again_rests(make_shadow: Callable[..., Shadow]) -> None:
    shadow = make_shadow(rule=BreakerRule(max_overruns=1))
    assert shadow.side(order("dying")).failure_kind == "raised"
    assert shadow.outcome(order("dying")) is ShadowShed.RESTING
    assert shadow.side(order("bolt")).failure_kind is None


def test_an_order_that_cannot_cross_costs_itself_alone(shadow: Shadow) -> None:
    assert shadow.outcome(order("bolt", open_video=lambda: None)) is ShadowShed.NO_PROCESS
    assert len(shadow.told.failures) == 1
    assert shadow.side(order("bolt")).failure_kind is None


def test_what_a_receiver_raises_stops_nothing(shadow: Shadow) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("the disk is full")

    assert shadow.runner.offer(order("bolt"), refuse) is None
    assert shadow.side(order("bolt")).failure_kind is None
    assert "the disk is full" in shadow.told.failures[0]


@pytest.mark.parametrize("sampler_id", ["sleeping", "spinning", "dying", "lingering", "forking"])
def test_closing_leaves_nothing_behind_whatever_runs(
    shadow: Shadow, sampler_id: str, tmp_path: Path
) -> None:
    others = child_processes()
    assert isinstance(shadow.outcome(order("bolt")), WorkResult)
    for _ in range(3):
        shadow.offer(order(sampler_id, query=str(tmp_path / "pid")))
    time.sleep(0.2)
    started = time.perf_counter()
    shadow.runner.close()
    assert time.perf_counter() - started < 5.0
    assert shadow.runner.pid is None
    assert child_processes() <= others
    assert shadow.offer(order("bolt")) is ShadowShed.CLOSING


GATEWAY = """
import sys, time
from app.sampler_breaker import BreakerRule, SamplerBreaker
from shadow.order import Greeting
from shadow.runner import RunnerLimits, RunnerParts, ShadowRunner
from tests.shadow.made_video import order
from tests.shadow.rogues import TARGETS
from tests.shadow.test_runner import Told

parts = RunnerParts(
    RunnerLimits(8, 3600.0, 3600.0), Greeting(TARGETS),
    SamplerBreaker(BreakerRule(), time.monotonic), Told(), lambda: False,
)
runner = ShadowRunner(parts)
runner.offer(order("uniform"), lambda _: print(runner.pid, flush=True))
for _ in range(2):
    runner.offer(order(sys.argv[1]), print)
time.sleep(3600)
"""


@pytest.mark.parametrize("sampler_id", ["uniform", "sleeping", "spinning"])
def test_the_process_dies_with_a_gateway_that_is_killed(sampler_id: str) -> None:
    command = [sys.executable, "-c", GATEWAY, sampler_id]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        pid = int(gateway.stdout.readline())
        time.sleep(0.5)
        assert is_running(pid)
        gateway.kill()
    deadline = time.monotonic() + 10.0
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
