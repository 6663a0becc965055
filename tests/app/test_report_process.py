"""app/report_process.py and the process that it starts, on a real ledger."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from app.errors import BusyError, LedgerUnavailableError, UnavailableError
from app.report_process import WORKER_MODULE, ShadowReportMaker
from app.report_worker import read_comparisons
from app.stores.layout import DataLayout
from app.stores.ledger import Ledger
from shadow.records import ComparisonRecord
from shadow.report import build_report
from shadow.report_document import ReportScope, ShadowReport
from tests.app.stored_video import DECODE_VERSION
from tests.app.video_world import wait_until
from tests.shadow.report_records import NOW_S, comparison, many, side

pytestmark = pytest.mark.anyio

SCOPE = ReportScope(NOW_S - 10, NOW_S + 100_000)


class ReportWorld:
    """A ledger of its own, and the maker that reads it."""

    def __init__(self, data_dir: Path) -> None:
        self.layout = DataLayout(data_dir)
        self.layout.create()
        self.url = f"sqlite:///{data_dir}/ledger.sqlite"
        self.maker = self.maker_of(self.url)

    def maker_of(self, url: str) -> ShadowReportMaker:
        return ShadowReportMaker(url, self.layout, DECODE_VERSION, dict(os.environ))

    def put(self, records: list[ComparisonRecord]) -> None:
        ledger = Ledger(self.url)
        ledger.put_comparisons(records)
        ledger.close()


@pytest.fixture
def world(tmp_path: Path) -> ReportWorld:
    return ReportWorld(tmp_path / "data")


def running_workers() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [child for child in children if WORKER_MODULE in child.cmdline()]


async def test_the_document_is_the_report_on_the_ledgers_records(world: ReportWorld) -> None:
    records = many(80)
    world.put(records)
    made = ShadowReport.model_validate_json(await world.maker.make(SCOPE, is_page=False))
    assert made == build_report(records, SCOPE)


async def test_the_page_is_whole_and_nothing_is_left_running(world: ReportWorld) -> None:
    world.put(many(30))
    page = (await world.maker.make(SCOPE, is_page=True)).decode()
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    assert running_workers() == []


async def test_one_report_is_made_at_a_time(world: ReportWorld) -> None:
    first = asyncio.create_task(world.maker.make(SCOPE, is_page=False))
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await world.maker.make(SCOPE, is_page=False)
    assert ShadowReport.model_validate_json(await first).pairs == []


async def test_a_caller_that_leaves_ends_the_process_and_frees_the_place(
    world: ReportWorld,
) -> None:
    making = asyncio.create_task(world.maker.make(SCOPE, is_page=False))
    await asyncio.to_thread(wait_until, lambda: bool(running_workers()))
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert running_workers() == []
    assert await world.maker.make(SCOPE, is_page=False)


async def test_a_process_that_dies_is_an_error_with_a_way_out(world: ReportWorld) -> None:
    making = asyncio.create_task(world.maker.make(SCOPE, is_page=False))
    await asyncio.to_thread(wait_until, lambda: bool(running_workers()))
    running_workers()[0].kill()
    with pytest.raises(UnavailableError, match="ask for a shorter time"):
        await making


async def test_a_ledger_that_is_away_is_named(world: ReportWorld) -> None:
    away = world.maker_of("postgresql://nobody@127.0.0.1:9/nothing")
    with pytest.raises(LedgerUnavailableError):
        await away.make(SCOPE, is_page=False)


async def test_a_named_sampler_brings_the_a_a_line_of_its_controls_along(
    world: ReportWorld,
) -> None:
    bolt = comparison(999, side("uniform", [1, 2]), side("bolt", [3, 4]))
    world.put([*many(50), bolt])
    ledger = Ledger(world.url)
    found = read_comparisons(ledger, replace(SCOPE, sampler="bolt"))
    ledger.close()
    pairs = sorted({(record.control.sampler_id, record.shadow.sampler_id) for record in found})
    assert pairs == [("uniform", "bolt"), ("uniform", "uniform")]


async def test_the_gateways_side_imports_nothing_that_calculates_or_draws() -> None:
    code = (
        "import sys, app.main\n"
        "print([name for name in ('matplotlib', 'jinja2', 'shadow.report') if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode().strip() == "[]"
