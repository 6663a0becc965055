"""What keeps a rollout from starting; each refusal says what to do, and nothing is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flags.rollout_needs import Coverage, RolloutRefusedError
from flags.rollout_plan import Comparison, Figure, Guard, Reference, Statistic
from flags.targeting import TARGETING_KEY
from tests.flags.flag_files import document, flag, put, rollout
from tests.flags.rollout_world import ANA, GUARD, RolloutWorld, request

RELEVANCE = Guard(
    Figure.SHADOW_RELEVANCE, Statistic.MEAN, Comparison.AT_LEAST, 0.9, Reference.RATIO
)
DRY = Guard(
    Figure.SAMPLER_FAILURE,
    Statistic.MEAN,
    Comparison.AT_MOST,
    0.01,
    Reference.ABSOLUTE,
    is_dry_run=True,
)


@pytest.fixture
def world(tmp_path: Path) -> RolloutWorld:
    return RolloutWorld(tmp_path)


def refusals(world: RolloutWorld, **changes: Any) -> str:
    before = world.path.read_bytes() if world.path.exists() else None
    with pytest.raises(RolloutRefusedError) as refused:
        world.controller.start(request(**changes), ANA)
    assert world.store.intent is None
    assert (world.path.read_bytes() if world.path.exists() else None) == before
    return str(refused.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stages": ()}, "must rise"),
        ({"stages": (5, 5)}, "must rise"),
        ({"stages": (25, 5)}, "must rise"),
        ({"stages": (0, 5)}, "must rise"),
        ({"stages": (50, 101)}, "must rise"),
        ({"dwell_s": -1.0}, "dwell time"),
        ({"dwell_s": float("nan")}, "dwell time"),
        ({"min_users": 0}, "raise the minimum"),
        ({"min_answers": 0}, "raise the minimum"),
        ({"false_alarm_rate": 0.0}, "false alarm"),
        ({"guards": ()}, "No guard would decide"),
        ({"guards": (RELEVANCE,)}, "No guard would decide"),
        ({"guards": (RELEVANCE, DRY)}, "No guard would decide"),
        ({"candidate": "nonesuch"}, "There is no sampler `nonesuch`"),
        (
            {"candidate": "bolt@power=2"},
            """FRAMEGATE_SAMPLER_OPTIONS: {"bolt@power=2": {}}. Known""",
        ),
        ({"candidate": "BOLT"}, "There is no sampler `BOLT` here. Did you mean `bolt`? Known"),
        ({"candidate": "aks"}, "Everyone gets `aks` already"),
    ],
    ids=str,
)
def test_a_plan_that_makes_no_sense_is_refused(
    world: RolloutWorld, changes: dict[str, Any], said: str
) -> None:
    assert said in refusals(world, **changes)


def test_an_unknown_candidate_is_no_reason_to_doubt_the_encoder(world: RolloutWorld) -> None:
    world.around.facts_now = None
    assert "cannot be asked" not in refusals(world, candidate="nonesuch")
    assert "cannot be asked" in refusals(world)


def test_one_rollout_at_a_time(world: RolloutWorld) -> None:
    world.start()
    assert "One at a time" in refusals(world, candidate="shot")


def test_a_sampler_to_roll_back_to_is_guessed(world: RolloutWorld) -> None:
    world.start()
    with pytest.raises(RolloutRefusedError, match=r"Did you mean `uniform`\? Known"):
        world.controller.rollback("r1", ANA, to="Uniform")


def test_states_are_words(world: RolloutWorld) -> None:
    world.start()
    world.controller.rollback("r1", ANA)
    with pytest.raises(RolloutRefusedError, match="The rollout is rolled back: "):
        world.controller.pause("r1", ANA)


def test_not_while_the_kill_switch_is_on(world: RolloutWorld) -> None:
    world.kill_switch.set(is_on=True, who="bo", why="smoke")
    assert "framegate kill-switch off" in refusals(world)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (rollout(5), "deals `bolt` to 5 %"),
        (
            document(flag("uniform", "aks", rule={"if": [TARGETING_KEY, "uniform"]})),
            "`uniform`, the others `aks`",
        ),
        (document(flag("aks") | {"state": "DISABLED"}), "DISABLED"),
        (document(flag("nonesuch")), "cannot take a rollout"),
        ({}, "cannot take a rollout"),
    ],
    ids=str,
)
def test_a_flag_file_that_is_wrong_or_deals_users_already_is_refused(
    world: RolloutWorld, content: dict[str, Any], said: str
) -> None:
    put(world.path, content)
    assert said in refusals(world)


def test_a_missing_flag_file_is_refused(world: RolloutWorld) -> None:
    world.path.unlink()
    assert "no flag file" in refusals(world)


def test_a_split_that_gives_all_to_one_arm_deals_nobody(world: RolloutWorld) -> None:
    put(world.path, rollout(0))
    assert world.start(candidate="aks").plan.control == "uniform"


@pytest.mark.parametrize(
    ("videos", "said"), [(Coverage(1000, 989), "98.9%"), (Coverage(0, 0), "No video")]
)
def test_videos_without_the_features_are_counted(
    world: RolloutWorld, videos: Coverage, said: str
) -> None:
    world.around.videos = videos
    assert said in refusals(world)


def test_ninety_nine_percent_of_the_videos_are_enough(world: RolloutWorld) -> None:
    world.around.videos = Coverage(1000, 990)
    world.start()


def test_a_figure_that_nobody_measures_is_said_once(world: RolloutWorld) -> None:
    world.around.unmeasurable = "Raise the rate."
    assert refusals(world, guards=(GUARD, DRY)).count("Raise the rate.") == 1


def test_a_candidate_that_lacks_something_here_is_refused_with_what_it_lacks(
    world: RolloutWorld,
) -> None:
    lacks = {"bolt": "it needs FRAMEGATE_SCORER_URL"}
    world.controller = world.restarted(why_unusable=lacks.get)
    said = refusals(world, candidate="bolt")
    assert "`bolt` cannot be served here: it needs FRAMEGATE_SCORER_URL." in said
    world.controller = world.restarted(why_unusable={"shot": "it needs more"}.get)
    world.start(candidate="bolt")


def test_a_part_that_is_away_is_said(world: RolloutWorld) -> None:
    world.around.facts_now = None
    assert "/readyz" in refusals(world)


def test_all_reasons_are_given_at_once(world: RolloutWorld) -> None:
    world.kill_switch.set(is_on=True, who="bo", why="smoke")
    world.around.videos = Coverage(10, 0)
    found = refusals(world, stages=(5, 1))
    assert all(said in found for said in ("must rise", "kill switch", "10 of the 10"))
