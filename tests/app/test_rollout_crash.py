"""`kill -9` of the gateway at the steps of a stage change, and crashes on the real ledger."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import anyio
import pytest

from app.stores.ledger import Ledger
from flags.check import check_flag_text
from flags.flag_edit import content_digest, read_serving
from flags.rollout_plan import StepKind, Verdict
from tests.app.answer_world import IndexedData, build_world, running
from tests.app.killed_gateway import BY
from tests.flags.flag_files import KNOWN
from tests.flags.rollout_world import ANA, DWELL_S, RolloutWorld, request
from tests.flags.test_rollout_crashes import EDITOR_CALLS, STORE_CALLS, Crash, Fuse, Fused

ROOT = Path(__file__).resolve().parents[2]


def killed(data_dir: Path, command: str, point: str) -> None:
    """Run a gateway that dies at this point, before it can reply."""
    arguments = [sys.executable, "-m", "tests.app.killed_gateway", str(data_dir), command, point]
    run = subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout) == (-9, ""), run.stderr[-2000:]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "point", "is_done"),
    [
        ("advance", "before:put_intent", False),
        ("advance", "after:put_intent", True),
        ("advance", "after:write", True),
        ("advance", "after:save_rollout", True),
        ("rollback", "after:put_intent", True),
        ("rollback", "after:write", True),
    ],
)
async def test_a_killed_gateway_leaves_a_whole_file_and_the_next_one_goes_on(
    tmp_path: Path, indexed: IndexedData, command: str, point: str, is_done: bool
) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(indexed.folder, data_dir)
    killed(data_dir, command, point)
    assert check_flag_text((data_dir / "flags.json").read_bytes(), KNOWN) == []

    world = build_world(data_dir, rollout_tick_s=0.05, rollout_lease_s=10.0)
    done = {"advance": "advanced", "rollback": "rolled_back"}[command]
    expected = ["started", done] if is_done else ["started"]
    async with running(world) as client:
        # The dead gateway's lease need not run out: a command recovers, too.
        [rollout] = (await client.get("/v1/rollouts")).json()["rollouts"]
        address = f"/v1/rollouts/{rollout['rollout_id']}"
        reply = await client.post(f"{address}/pause", json=BY)
        steps = (await client.get(f"{address}/history")).json()["steps"]
        shown = (await client.get(address)).json()

    assert reply.status_code == (409 if command == "rollback" else 200)
    kinds = [step["kind"] for step in steps]
    assert kinds == [*expected, *([] if command == "rollback" else ["paused"])]
    assert [step["sequence"] for step in steps] == list(range(1, len(steps) + 1))
    content = (data_dir / "flags.json").read_bytes()
    assert steps[-1]["flag_digest_after"] == content_digest(content)
    arms = read_serving(content, KNOWN).arms
    weight = 0 if arms is None else arms.weight
    assert weight == {"advance": 50 if is_done else 5, "rollback": 0}[command]
    assert shown["state"] == ("rolled_back" if command == "rollback" else "paused")


@pytest.mark.anyio
async def test_after_a_kill_the_next_gateway_recovers_without_any_command(
    tmp_path: Path, indexed: IndexedData
) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(indexed.folder, data_dir)
    killed(data_dir, "advance", "after:put_intent")
    world = build_world(data_dir, rollout_tick_s=0.05, rollout_lease_s=10.0)
    async with running(world):
        deadline = time.monotonic() + 20
        while True:
            arms = read_serving((data_dir / "flags.json").read_bytes(), KNOWN).arms
            if arms is not None and arms.weight == 50:
                break
            assert time.monotonic() < deadline
            await anyio.sleep(0.05)


def test_every_point_of_an_advance_may_be_the_last_one_on_the_real_ledger(
    tmp_path: Path, ledger: Ledger
) -> None:
    world = RolloutWorld(tmp_path)
    fuse = Fuse()
    next_process = world.restarted(ledger)
    for crash_after in count():
        step = next_process.start(request(stages=(5, 50)), ANA)
        world.around.now_s += DWELL_S + 1
        world.around.verdict = Verdict.PASS
        doomed = world.restarted(
            Fused(ledger, STORE_CALLS, fuse), Fused(world.editor, EDITOR_CALLS, fuse)
        )
        fuse.left = crash_after
        is_cut = False
        try:
            doomed.tick()
        except Crash:
            is_cut = True
        fuse.left = None
        next_process.tick()
        kinds = [one.kind for one in ledger.rollout_steps(step.rollout_id)]
        assert kinds == [StepKind.STARTED, StepKind.ADVANCED]
        assert ledger.open_intent() is None
        assert world.weight() == 50
        next_process.rollback(step.rollout_id, ANA)
        if not is_cut:
            break
