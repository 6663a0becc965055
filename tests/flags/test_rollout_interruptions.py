"""A guard that fails after the flag file was edited by hand, broken or taken away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flags.rollout_changes import By
from flags.rollout_plan import RolloutState, Verdict
from flags.targeting import TARGETING_KEY
from tests.flags.flag_files import document as flag_document
from tests.flags.flag_files import flag, put, serving
from tests.flags.flag_files import split as flag_split
from tests.flags.rollout_world import RolloutWorld

BO = By("bo", "looks wrong")


@pytest.fixture
def world(tmp_path: Path) -> RolloutWorld:
    return RolloutWorld(tmp_path)


def set_weight(world: RolloutWorld, weight: int) -> None:
    arms = [["bolt", weight], ["aks", 100 - weight]]
    split = {"fractional": [{"cat": [world.rollout().salt, TARGETING_KEY]}, *arms]}
    world.edit_sampler_flag(targeting={"if": [TARGETING_KEY, split]})


def look(world: RolloutWorld, verdict: Verdict = Verdict.INCONCLUSIVE) -> None:
    world.around.verdict = verdict
    world.around.now_s += 11
    world.controller.tick()


@pytest.mark.parametrize("is_noticed_before", [False, True])
def test_a_failing_guard_takes_the_candidate_out_of_a_file_with_another_weight(
    world: RolloutWorld, is_noticed_before: bool
) -> None:
    world.start()
    set_weight(world, 80)
    if is_noticed_before:
        look(world)
        assert world.rollout().state is RolloutState.PAUSED
    look(world, Verdict.FAIL)

    assert world.serving().everyone == "aks"
    assert world.rollout().state is RolloutState.ROLLED_BACK
    assert (world.last().old_weight, world.last().who) == (80, "framegate")
    assert "edited by hand and still dealt `bolt`" in world.last().why


@pytest.mark.parametrize("broken", [b"{", None])
def test_a_failing_guard_rolls_back_once_the_rollouts_own_file_is_back(
    world: RolloutWorld, broken: bytes | None
) -> None:
    world.start()
    own = world.path.read_bytes()
    world.path.unlink()
    if broken is not None:
        world.path.write_bytes(broken)
    look(world, Verdict.FAIL)
    look(world, Verdict.FAIL)
    look(world, Verdict.FAIL)
    assert world.kinds() == ["started", "paused", "paused"]
    assert world.rollout().reason.startswith("A guard fails, and nobody will roll back:")
    assert "framegate kill-switch on" in world.rollout().reason
    world.path.write_bytes(own)
    look(world, Verdict.FAIL)

    assert world.serving().everyone == "aks"
    assert "edited by hand" not in world.last().why


def test_a_failing_guard_never_touches_a_file_that_serves_something_else(
    world: RolloutWorld,
) -> None:
    world.start()
    put(world.path, flag_document(flag("bolt", "uniform", rule=flag_split(80))))
    by_hand = world.path.read_bytes()
    for _ in range(4):
        look(world, Verdict.FAIL)

    assert world.path.read_bytes() == by_hand
    assert world.kinds() == ["started", "paused", "paused"]
    assert "nobody will roll back" in world.rollout().reason
    assert "`framegate rollout rollback` takes `bolt` out of it" in world.rollout().reason
    report = world.last().evidence["report"]
    assert isinstance(report, dict)
    assert report["verdict"] == "fail"


def test_nothing_is_said_of_a_rollback_where_nobody_gets_the_candidate(
    world: RolloutWorld,
) -> None:
    world.start()
    put(world.path, serving("shot"))
    look(world, Verdict.FAIL)
    look(world, Verdict.FAIL)
    assert world.kinds() == ["started", "paused"]


def test_after_the_kill_switch_a_failing_guard_takes_out_what_the_file_still_deals(
    world: RolloutWorld,
) -> None:
    world.start()
    world.kill_switch.set(is_on=True, who="bo", why="smoke")
    look(world, Verdict.FAIL)
    look(world, Verdict.FAIL)
    assert world.kinds() == ["started", "paused"]
    world.kill_switch.set(is_on=False, who="bo", why="no fire")
    look(world, Verdict.FAIL)
    assert world.kinds() == ["started", "paused", "rolled_back"]
    assert world.serving().everyone == "aks"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "There is no flag file"),
        (b"{", "not valid JSON"),
        (json.dumps(flag_document(flag("nonesuch"))).encode(), "of no use now"),
    ],
)
def test_a_pause_says_what_is_wrong_with_the_file_and_names_the_kill_switch(
    world: RolloutWorld, content: bytes | None, said: str
) -> None:
    world.start()
    world.path.unlink()
    if content is not None:
        world.path.write_bytes(content)
    look(world)
    look(world)

    assert world.kinds() == ["started", "paused"]
    reason = world.rollout().reason
    assert said in reason
    assert "`resume` and `rollback` are refused" in reason
    assert "`framegate kill-switch on --why …` is the way back" in reason
