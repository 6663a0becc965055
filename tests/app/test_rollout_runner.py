"""One of all gateways on a ledger looks after the rollout, whatever it meets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider

from app.rollout_runner import LEASE, RolloutRunner, RunnerParts, RunnerTimes
from app.rollout_surroundings import Deployment, LiveFacts
from app.rollout_telemetry import RolloutTelemetry
from app.sampler_table import SamplerTable
from app.stores.ledger import Ledger
from app.stores.sqlite import sqlite_url
from flags.rollout_plan import Verdict
from observability.metrics import Metrics
from samplers.registry import load_registry
from tests.fakes import FakeEncoderClient
from tests.flags.rollout_world import ANA, RolloutWorld, request

pytestmark = pytest.mark.anyio


class SharedLedger:
    """A rollout world whose store is a real ledger, and the gateways on it."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(sqlite_url(folder / "ledger.sqlite"))
        self.world = RolloutWorld(folder)
        self.looked: list[str] = []
        """Who looked, in order."""

    def gateway(self, holder: str, *, lease_s: float = 5.0) -> RolloutRunner:
        around = self.world.around

        def clock() -> float:
            self.looked.append(holder)
            return around.now_s

        metrics = Metrics(MeterProvider(), sampler_ids=["bolt", "aks"])
        table = SamplerTable(load_registry(), {}, encoder="default")
        facts = LiveFacts(table, FakeEncoderClient(), Deployment("merge", "demo", "llm"))
        parts = RunnerParts(
            self.world.restarted(self.ledger, clock=clock),
            self.ledger,
            facts,
            RolloutTelemetry(metrics),
            holder,
        )
        return RolloutRunner(parts, RunnerTimes(tick_s=0.02, lease_s=lease_s))

    def start(self) -> None:
        self.world.restarted(self.ledger).start(request(), ANA)

    def kinds(self) -> list[str]:
        return [str(step.kind) for step in self.ledger.rollout_steps("r1")]


@pytest.fixture
def shared(tmp_path: Path) -> SharedLedger:
    return SharedLedger(tmp_path)


async def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not is_true():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


async def test_of_two_gateways_one_looks_and_acts_once(shared: SharedLedger) -> None:
    shared.start()
    async with shared.gateway("a").running():
        await until(lambda: "a" in shared.looked)
        async with shared.gateway("b").running():
            shared.world.around.verdict = Verdict.FAIL
            await until(lambda: shared.kinds() == ["started", "rolled_back"])
            await asyncio.sleep(0.2)

    assert set(shared.looked) == {"a"}
    assert shared.kinds() == ["started", "rolled_back"]


async def test_the_other_takes_over_when_the_first_one_leaves(shared: SharedLedger) -> None:
    shared.start()
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        await first.enter_async_context(shared.gateway("a").running())
        await until(lambda: "a" in shared.looked)
        await second.enter_async_context(shared.gateway("b").running())
        await first.aclose()
        await until(lambda: shared.looked[-1] == "b")
    assert shared.ledger.take_lease(LEASE, "c", 1.0)


async def test_while_another_holds_the_lease_nobody_looks(shared: SharedLedger) -> None:
    shared.start()
    assert shared.ledger.take_lease(LEASE, "other", 3600.0)
    async with shared.gateway("b").running():
        await asyncio.sleep(0.2)
    assert shared.looked == []


async def test_the_other_takes_over_when_the_first_one_died(shared: SharedLedger) -> None:
    shared.start()
    assert shared.ledger.take_lease(LEASE, "dead", 0.3)
    async with shared.gateway("b").running():
        await until(lambda: "b" in shared.looked)


async def test_a_look_that_fails_is_logged_once_and_repeated(
    shared: SharedLedger, caplog: pytest.LogCaptureFixture
) -> None:
    shared.start()
    good = shared.world.path.read_bytes()
    shared.world.around.verdict = Verdict.FAIL
    flags = good.replace(b'"off": "off"', b'"off": "nonesuch"')
    shared.world.path.write_bytes(flags)
    async with shared.gateway("a").running():
        await until(lambda: len(shared.looked) > 12)
        assert shared.kinds() == ["started"]
        shared.world.path.write_bytes(good)
        await until(lambda: shared.kinds() == ["started", "rolled_back"])
    failures = [line for line in caplog.messages if "could not be looked at" in line]
    assert len(failures) == 1
    assert "not obeyed" in failures[0]


async def test_a_ledger_that_is_away_stops_nothing(shared: SharedLedger) -> None:
    shared.ledger.close()
    broken = SharedLedger(shared.world.path.parent)
    broken.ledger = Ledger("postgresql+psycopg://nobody@127.0.0.1:9/none")
    async with broken.gateway("a").running():
        await asyncio.sleep(0.2)
    assert broken.looked == []
