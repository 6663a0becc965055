"""What the journal refuses to carry out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flags.flag_edit import UneditableFlagsError
from flags.rollout_changes import Change, raised
from flags.rollout_journal import Journal
from flags.rollout_needs import RolloutNeeds, RolloutRefusedError
from tests.flags.flag_files import put, serving
from tests.flags.rollout_world import ANA, RolloutWorld


@pytest.fixture
def world(tmp_path: Path) -> RolloutWorld:
    made = RolloutWorld(tmp_path)
    made.start()
    made.controller.advance("r1", ANA)
    return made


def needs_of(world: RolloutWorld) -> RolloutNeeds:
    return world.controller._needs


def advance(world: RolloutWorld) -> Change:
    report = world.controller.judge(world.rollout())
    return raised(world.rollout(), world.around.now_s, ANA, report)


def test_an_edit_of_a_file_that_is_away(world: RolloutWorld) -> None:
    with pytest.raises(UneditableFlagsError, match="missing or no JSON"):
        Journal(needs_of(world)).carry_out(advance(world), None)


def test_a_raise_that_would_take_users_from_the_candidate(world: RolloutWorld) -> None:
    change = advance(world)
    assert change.edit is not None
    assert change.edit.arms is not None
    lowered = replace(change.edit, arms=replace(change.edit.arms, weight=2))
    content = world.path.read_bytes()
    with pytest.raises(RolloutRefusedError, match="Users would change arms"):
        Journal(needs_of(world)).carry_out(replace(change, edit=lowered), content)
    assert (world.weight(), world.store.intent) == (5, None)


def test_an_edit_that_somebody_else_was_faster_with(world: RolloutWorld) -> None:
    change, content = advance(world), world.path.read_bytes()
    put(world.path, serving("uniform"))
    by_hand = world.path.read_bytes()
    with pytest.raises(RolloutRefusedError, match="at this very moment"):
        Journal(needs_of(world)).carry_out(change, content)
    assert world.path.read_bytes() == by_hand
    assert (world.kinds(), world.store.intent) == (["started", "advanced"], None)
