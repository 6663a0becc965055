"""What an operator is told comes next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flags.guard_report import ArmCount
from flags.rollout_plan import Rollout, RolloutState, Verdict
from flags.rollout_text import Outlook, duration_text, outlook
from tests.flags.rollout_world import DWELL_S, RolloutWorld


@pytest.fixture
def world(tmp_path: Path) -> RolloutWorld:
    return RolloutWorld(tmp_path)


def ahead(world: RolloutWorld, rollout: Rollout) -> Outlook:
    return outlook(rollout, world.controller.judge(rollout), world.around.now_s)


def test_a_running_stage_says_what_it_waits_for(world: RolloutWorld) -> None:
    rollout = world.start()
    world.around.count = ArmCount(users=3, answers=7)
    told = ahead(world, rollout)

    assert told.next_at_s == rollout.stage_started_s + DWELL_S
    for said in (
        "Goes to 5 % by itself",
        "the dwell time of 60 s",
        "3 of 10 users and 7 of 20 answers (candidate)",
        "(control)",
        "every guard to pass",
    ):
        assert said in told.next


def test_a_stage_that_waits_for_nothing_is_left_at_the_next_look(world: RolloutWorld) -> None:
    rollout = world.start()
    world.around.now_s += 2 * DWELL_S
    world.around.verdict = Verdict.PASS
    assert ahead(world, rollout) == Outlook("Goes to 5 % at the next look.", world.around.now_s)
    everyone = replace(rollout, plan=replace(rollout.plan, stages=(100,)))
    world.around.count = ArmCount(users=10, answers=20)
    assert ahead(world, everyone).next == "Is completed at the next look."


def test_the_last_stage_below_everyone_waits_for_a_person(world: RolloutWorld) -> None:
    rollout = replace(world.start(), stage=2)
    world.around.verdict = Verdict.PASS
    told = ahead(world, rollout)
    assert "`framegate rollout advance` gives `bolt` to everyone" in told.next
    assert told.next_at_s is None


def test_what_the_guards_ask_for_comes_first(world: RolloutWorld) -> None:
    rollout = world.start()
    world.around.verdict = Verdict.FAIL
    assert "Rolls back at the next look" in ahead(world, rollout).next
    world.around.verdict, world.around.must_pause = Verdict.INCONCLUSIVE, True
    assert "Pauses at the next look" in ahead(world, rollout).next


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (RolloutState.PAUSED, "framegate rollout resume"),
        (RolloutState.COMPLETED, "what everyone gets"),
        (RolloutState.ROLLED_BACK, "framegate rollout start"),
    ],
)
def test_a_rollout_that_does_not_run_says_which_command_comes_next(
    world: RolloutWorld, state: RolloutState, said: str
) -> None:
    rollout = replace(world.start(), state=state)
    told = outlook(rollout, None, world.around.now_s)
    assert said in told.next
    assert told.next_at_s is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (7200, "2 h"),
        (12_000, "3 h 20 min"),
        (187_200, "2 d 4 h"),
        (172_800, "2 d"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
