"""What is told while the kill switch or the flag file stand in a rollout's way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flags.rollout_plan import Verdict
from flags.rollout_text import Outlook, outlook
from tests.flags.flag_files import KNOWN, document, flag, put, serving
from tests.flags.flag_files import split as flag_split
from tests.flags.rollout_world import ANA, RolloutWorld
from tests.flags.test_rollout_interruptions import look, set_weight

Disturb = Callable[[RolloutWorld], object]


@pytest.fixture
def world(tmp_path: Path) -> RolloutWorld:
    return RolloutWorld(tmp_path)


def ahead(world: RolloutWorld, verdict: Verdict = Verdict.INCONCLUSIVE) -> Outlook:
    world.around.verdict = verdict
    rollout = world.rollout()
    flags = world.controller.flags_now(rollout)
    return outlook(rollout, world.controller.judge(rollout), flags, world.around.now_s)


def break_file(world: RolloutWorld) -> None:
    world.path.write_bytes(b"{")


def kill(world: RolloutWorld) -> None:
    world.kill_switch.set(is_on=True, who="bo", why="smoke")


def serve_shot(world: RolloutWorld) -> None:
    put(world.path, serving("shot"))


def mix(world: RolloutWorld) -> None:
    put(world.path, document(flag("bolt", "uniform", rule=flag_split(80))))


def raise_weight(world: RolloutWorld) -> None:
    set_weight(world, 80)


@pytest.mark.parametrize(
    ("disturb", "said", "is_due"),
    [
        (break_file, "Holds while the flag file cannot be used: mend", False),
        (kill, "Pauses at the next look: the kill switch is on", True),
        (serve_shot, "Pauses at the next look: the flag file was edited", True),
        (raise_weight, "Pauses at the next look: the flag file was edited", True),
    ],
)
def test_what_happened_a_moment_ago_is_told_before_any_look(
    world: RolloutWorld, disturb: Disturb, said: str, is_due: bool
) -> None:
    world.start()
    disturb(world)
    told = ahead(world)
    assert said in told.next
    assert "by itself" not in told.next
    assert (told.next_at_s is not None) is is_due


@pytest.mark.parametrize("is_noticed", [False, True])
@pytest.mark.parametrize(
    ("disturb", "said"),
    [
        (break_file, "Nobody will roll back, although a guard fails: the flag file cannot be used"),
        (break_file, "`framegate kill-switch on --why …` takes `bolt` from everyone"),
        (mix, "Nobody will roll back, although a guard fails: the flag file serves something"),
        (mix, "`framegate rollout rollback` takes `bolt` out of it"),
        (raise_weight, "Rolls back at the next look: a guard fails"),
        (serve_shot, "nobody gets `bolt` by the flag file. `framegate rollout rollback` ends"),
        (kill, "kill switch is on: a guard fails, and everyone gets `uniform`"),
    ],
)
def test_a_failing_guard_is_told_with_who_answers_it(
    world: RolloutWorld, disturb: Disturb, said: str, is_noticed: bool
) -> None:
    world.start()
    disturb(world)
    if is_noticed:
        look(world)
        look(world)
        assert world.kinds() == ["started", "paused"]
    assert said in ahead(world, Verdict.FAIL).next


@pytest.mark.parametrize(
    ("disturb", "said"),
    [
        (break_file, "mend the flag file, then `framegate rollout resume`"),
        (break_file, "Until then both are refused, and `framegate kill-switch on"),
        (kill, "`framegate kill-switch off --why …` and then `framegate rollout resume`"),
        (serve_shot, "`framegate rollout resume` is refused until everyone gets `aks` again"),
        (raise_weight, "deals 1 % of the users anew, in place of what was edited, or"),
    ],
)
def test_a_pause_names_only_commands_that_would_be_obeyed(
    world: RolloutWorld, disturb: Disturb, said: str
) -> None:
    world.start()
    disturb(world)
    look(world)
    look(world)
    assert said in ahead(world).next


def test_a_pause_whose_reason_is_gone_says_so(world: RolloutWorld) -> None:
    world.start()
    own = world.path.read_bytes()
    break_file(world)
    look(world)
    look(world)
    world.path.write_bytes(own)
    told = ahead(world).next
    assert told.startswith("The flag file is as the rollout left it again. Waits for a person")
    assert "refused" not in told
    world.controller.resume("r1", ANA)

    kill(world)
    look(world)
    world.kill_switch.set(is_on=False, who="bo", why="no fire")
    assert ahead(world).next.startswith("The kill switch is off again. Waits for a person")


def test_a_candidate_that_is_no_longer_known_holds_and_may_be_rolled_back(
    world: RolloutWorld,
) -> None:
    world.start()
    world.controller = world.restarted(known=KNOWN - {"bolt"})
    told = ahead(world).next
    assert "Holds while the flag file cannot be used" in told
    assert "`framegate rollout rollback` takes `bolt` out of it" in told
