"""What an operator is told comes next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flags.guard_report import ArmCount, ArmFigure, GuardResult
from flags.rollout_plan import Rollout, RolloutState, Verdict
from flags.rollout_text import Outlook, duration_text, outlook
from tests.flags.rollout_world import DWELL_S, RolloutWorld


@pytest.fixture
def world(tmp_path: Path) -> RolloutWorld:
    return RolloutWorld(tmp_path)


def ahead(world: RolloutWorld, rollout: Rollout) -> Outlook:
    report = world.controller.judge(rollout)
    return outlook(rollout, report, world.controller.flags_now(rollout), world.around.now_s)


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


def test_no_dwell_time_is_not_waited_for(world: RolloutWorld) -> None:
    rollout = world.start(dwell_s=0.0)
    world.around.verdict = Verdict.PASS
    told = ahead(world, rollout)
    assert told == Outlook("Goes to 5 % at the next look.", rollout.stage_started_s)


def test_the_last_moments_of_a_dwell_time_are_not_called_nothing(world: RolloutWorld) -> None:
    rollout = world.start()
    world.around.now_s = rollout.stage_started_s + DWELL_S - 0.1
    assert "the dwell time of 1 s" in ahead(world, rollout).next


def guard(name: str, verdict: Verdict = Verdict.INCONCLUSIVE, **changes: Any) -> GuardResult:
    nothing = ArmFigure(users=0, estimate=None, lower=0.0, upper=1.0)
    fields: dict[str, Any] = {"is_proven": False, "decides": True, "is_required": True}
    fields |= {"is_relative": False, "candidate": nothing, "control": nothing, "reason": ""}
    return GuardResult(guard=name, verdict=verdict, **(fields | changes))


@pytest.mark.parametrize(
    ("guards", "said"),
    [
        ((guard("a"), guard("b", Verdict.PASS)), "waits for guard `a` to pass."),
        ((guard("a"), guard("b")), "waits for guards `a` and `b` to pass."),
        ((guard("a"), guard("b", is_required=False)), "waits for guard `a` to pass."),
        (tuple(map(guard, "abcde")), "waits for guards `a`, `b`, `c` and 2 more to pass."),
    ],
    ids=str,
)
def test_the_guards_that_are_waited_for_are_named(
    world: RolloutWorld, guards: tuple[GuardResult, ...], said: str
) -> None:
    rollout = world.start()
    world.around.now_s += 2 * DWELL_S
    report = replace(world.controller.judge(rollout), guards=guards)
    flags = world.controller.flags_now(rollout)
    assert said in outlook(rollout, report, flags, world.around.now_s).next


def test_the_last_stage_below_everyone_waits_for_a_person(world: RolloutWorld) -> None:
    rollout = replace(world.start(), stage=2)
    world.around.verdict = Verdict.PASS
    told = ahead(world, rollout)
    assert "`framegate rollout advance` gives `bolt` to everyone" in told.next
    assert told.next_at_s is None
    assert "as much was seen as asked for" in told.next


def test_the_last_stage_below_everyone_says_what_was_seen_and_never_that_it_is_done(
    world: RolloutWorld,
) -> None:
    rollout = replace(world.start(), stage=2)
    world.around.count = ArmCount(users=0, answers=0)
    told = ahead(world, rollout).next
    assert told.startswith("Stays at 25 %, the last stage")
    assert "until you decide; so far 0 of 10 users and 0 of 20 answers (candidate)" in told


def test_after_the_dwell_time_no_clock_says_when_enough_users_will_have_asked(
    world: RolloutWorld,
) -> None:
    rollout = world.start()
    world.around.count = ArmCount(users=3, answers=7)
    world.around.now_s = rollout.stage_started_s + DWELL_S + 1
    assert ahead(world, rollout).next_at_s is None


def test_users_who_asked_and_are_not_counted_yet_are_told_with_the_moment(
    world: RolloutWorld,
) -> None:
    rollout = world.start()
    world.around.count = ArmCount(users=0, answers=0, open_users=24, first_closes_s=43_773.0)
    assert "(candidate; 24 users open, the first is counted by 12:09:33 UTC)" in (
        ahead(world, rollout).next
    )


@pytest.mark.parametrize(
    ("changes", "is_late"),
    [
        ({}, True),
        ({"dwell_s": 600.0}, False),
        ({"user_window_s": 60.0}, False),
        ({"user_answers": 1}, False),
    ],
    ids=str,
)
def test_a_user_window_longer_than_the_dwell_time_is_said_from_the_start(
    world: RolloutWorld, changes: dict[str, Any], is_late: bool
) -> None:
    world.around.count = ArmCount(users=0, answers=0)
    told = ahead(world, world.start(**changes)).next
    assert ("fewer than 5 times is counted only 10 min after" in told) is is_late
    assert ("`--user-window`" in told) is is_late


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
    told = outlook(rollout, None, world.controller.flags_now(rollout), world.around.now_s)
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
