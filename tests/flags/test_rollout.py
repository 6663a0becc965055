"""A rollout's commands and its automatic part, on a real flag file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flags.check import check_flag_text
from flags.flag_edit import Arms, UneditableFlagsError
from flags.guard_report import ArmCount
from flags.rollout_changes import EDIT_S, By
from flags.rollout_needs import NoSuchRolloutError, RolloutRefusedError
from flags.rollout_plan import RolloutState, StepKind, Verdict
from flags.targeting import TARGETING_KEY
from tests.flags.flag_files import KNOWN, flag, put, serving
from tests.flags.rollout_world import ANA, DWELL_S, FACTS, RolloutWorld

BO = By("bo", "looks wrong")


@pytest.fixture
def world(tmp_path: Path) -> RolloutWorld:
    return RolloutWorld(tmp_path)


def test_a_start_deals_the_first_stage_and_is_in_the_log(world: RolloutWorld) -> None:
    rollout = world.start()

    assert world.serving().arms == Arms("bolt", "aks", 1, "video.sampler/r1/1/")
    assert check_flag_text(world.path.read_bytes(), KNOWN) == []
    assert (rollout.state, rollout.weight, rollout.epoch) == (RolloutState.RUNNING, 1, 1)
    step = world.last()
    assert (step.kind, step.who, step.why) == (StepKind.STARTED, ANA.who, ANA.why)
    assert (step.old_weight, step.new_weight) == (None, 1)
    assert step.flag_digest_before != step.flag_digest_after
    assert world.store.intent is None


def test_a_good_candidate_climbs_without_a_hand_and_stays_at_the_last_stage(
    world: RolloutWorld,
) -> None:
    world.start()
    weights = [world.weight()]
    for _ in range(4):
        world.pass_stage()
        weights.append(world.weight())

    assert weights == [1, 5, 25, 25, 25]
    assert world.rollout().state is RolloutState.RUNNING
    report = world.last().evidence["report"]
    assert isinstance(report, dict)
    assert report["verdict"] == "pass"


def test_the_stage_of_everyone_ends_in_the_candidate_being_the_default(
    world: RolloutWorld,
) -> None:
    world.start(stages=(50, 100))
    world.pass_stage()
    assert world.serving().default == "aks"
    step = world.pass_stage()

    assert step is not None
    assert (step.kind, step.old_weight, step.new_weight) == (StepKind.COMPLETED, 100, 100)
    assert world.serving().everyone == "bolt"
    assert world.rollout().state is RolloutState.COMPLETED
    assert world.controller.tick() is None


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.PASS])
def test_nothing_is_raised_before_the_dwell_time_is_over(
    world: RolloutWorld, verdict: Verdict
) -> None:
    world.start()
    world.around.verdict = verdict
    world.around.now_s += DWELL_S - 1
    assert world.controller.tick() is None


def test_answers_decided_while_the_file_is_replaced_belong_to_no_stage(world: RolloutWorld) -> None:
    assert world.start().stage_started_s == world.around.now_s + EDIT_S
    world.pass_stage()
    assert world.rollout().stage_started_s == world.around.now_s + EDIT_S


def test_an_inconclusive_stage_holds(world: RolloutWorld) -> None:
    world.start()
    world.around.now_s += 100 * DWELL_S
    assert world.controller.tick() is None


@pytest.mark.parametrize("count", [ArmCount(users=9, answers=99), ArmCount(users=99, answers=19)])
def test_no_data_no_advance(world: RolloutWorld, count: ArmCount) -> None:
    world.start()
    world.around.count = count
    assert world.pass_stage() is None


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_failing_guard_rolls_back_also_while_paused(world: RolloutWorld, is_paused: bool) -> None:
    world.start()
    if is_paused:
        world.controller.pause("r1", ANA)
    world.around.verdict = Verdict.FAIL
    step = world.controller.tick()

    assert step is not None
    assert (step.kind, step.who, step.new_weight) == (StepKind.ROLLED_BACK, "framegate", 0)
    assert step.why == "It is fail."
    assert world.serving().everyone == "aks"
    assert world.rollout().state is RolloutState.ROLLED_BACK
    assert world.controller.tick() is None


def test_what_more_data_cannot_mend_pauses(world: RolloutWorld) -> None:
    world.start()
    world.around.must_pause = True
    world.controller.tick()
    assert world.kinds() == ["started", "paused"]
    assert world.controller.tick() is None
    assert world.weight() == 1


def test_the_commands_do_what_they_say(world: RolloutWorld) -> None:
    world.start()
    world.controller.advance("r1", ANA)
    world.controller.pause("r1", BO)
    world.controller.resume("r1", ANA)
    world.controller.advance("r1", ANA)
    assert world.weight() == 25
    world.controller.advance("r1", ANA)
    assert world.serving().everyone == "bolt"
    world.controller.rollback("r1", BO)

    assert world.serving().everyone == "aks"
    assert world.kinds() == [
        "started", "advanced", "paused", "resumed", "advanced", "completed", "rolled_back",
    ]  # fmt: skip
    assert [step.sequence for step in world.store.steps["r1"]] == list(range(1, 8))
    assert world.last().who == "bo"


def test_a_pause_keeps_epoch_and_salt_and_the_dwell_time_begins_anew(world: RolloutWorld) -> None:
    before = world.start()
    world.controller.pause("r1", BO)
    world.around.now_s += 5
    world.controller.resume("r1", ANA)
    after = world.rollout()
    assert (after.epoch, after.salt, after.stage) == (1, before.salt, 0)
    assert after.stage_started_s == before.stage_started_s - EDIT_S + 5


def test_a_rollback_may_go_to_the_baseline(world: RolloutWorld) -> None:
    world.start()
    world.controller.rollback("r1", BO, to="uniform")
    assert world.serving().everyone == "uniform"


def test_a_bad_control_is_left_by_a_second_rollback(world: RolloutWorld) -> None:
    world.start()
    world.controller.rollback("r1", BO)
    with pytest.raises(RolloutRefusedError, match="`--to uniform`"):
        world.controller.rollback("r1", BO)
    step = world.controller.rollback("r1", BO, to="uniform")

    assert world.serving().everyone == "uniform"
    assert (step.sequence, step.kind, step.who) == (3, StepKind.ROLLED_BACK, "bo")
    assert step.flag_digest_before != step.flag_digest_after
    assert world.rollout().state is RolloutState.ROLLED_BACK
    with pytest.raises(RolloutRefusedError, match="is the candidate"):
        world.controller.rollback("r1", BO, to="bolt")
    put(world.path, serving("shot"))
    with pytest.raises(RolloutRefusedError, match=r"changed since.*kill-switch on"):
        world.controller.rollback("r1", BO, to="uniform")


def test_a_second_rollback_keeps_off_the_next_rollout(world: RolloutWorld) -> None:
    world.start()
    world.controller.rollback("r1", BO)
    world.start()
    with pytest.raises(RolloutRefusedError, match="what runs now"):
        world.controller.rollback("r1", BO, to="uniform")


def test_the_next_rollout_has_another_salt(world: RolloutWorld) -> None:
    first = world.start()
    world.controller.rollback("r1", BO)
    second = world.start()
    assert first.salt != second.salt
    assert world.serving().arms == Arms("bolt", "aks", 1, second.salt)


@pytest.mark.parametrize(
    "changes",
    [
        {"candidate_version": "2"},
        {"encoder_id": "fake@2"},
        {"reducer_id": "none"},
        {"llm_id": "other"},
    ],
    ids=str,
)
def test_another_version_of_anything_begins_a_new_epoch(
    world: RolloutWorld, changes: dict[str, str]
) -> None:
    before = world.start()
    world.around.facts_now = replace(FACTS, **changes)
    world.pass_stage()
    after = world.rollout()

    assert world.kinds() == ["started", "new_epoch"]
    assert (after.epoch, after.salt, after.facts) == (2, before.salt, world.around.facts_now)
    assert after.stage_started_s == world.around.now_s
    assert next(iter(changes)) in after.reason
    world.pass_stage()
    assert world.kinds()[-1] == "advanced"


def test_while_a_part_is_away_nothing_is_raised_but_a_failure_rolls_back(
    world: RolloutWorld,
) -> None:
    world.start()
    world.around.facts_now = None
    assert world.pass_stage() is None
    world.around.verdict = Verdict.FAIL
    world.controller.tick()
    assert world.kinds()[-1] == "rolled_back"


def test_the_kill_switch_pauses_and_users_are_dealt_anew_afterwards(world: RolloutWorld) -> None:
    before = world.start()
    world.kill_switch.set(is_on=True, who="bo", why="smoke")
    step = world.controller.tick()
    assert step is not None
    assert "bo: smoke" in step.why
    world.around.verdict = Verdict.FAIL
    assert world.controller.tick() is None
    with pytest.raises(RolloutRefusedError, match="kill switch is on"):
        world.controller.resume("r1", ANA)
    world.kill_switch.set(is_on=False, who="bo", why="no fire")
    world.controller.resume("r1", ANA)

    after = world.rollout()
    assert (after.epoch, after.weight, after.state) == (2, 1, RolloutState.RUNNING)
    assert after.salt != before.salt
    assert world.serving().arms == Arms("bolt", "aks", 1, after.salt)


def test_an_edit_by_hand_pauses_and_is_never_overwritten(world: RolloutWorld) -> None:
    world.start()
    put(world.path, serving("uniform"))
    by_hand = world.path.read_bytes()
    world.around.verdict = Verdict.FAIL
    for _ in range(3):
        world.controller.tick()

    assert world.path.read_bytes() == by_hand
    assert world.kinds() == ["started", "paused"]
    assert "Everyone gets `uniform`" in world.rollout().reason
    with pytest.raises(RolloutRefusedError, match="give everyone `aks` again"):
        world.controller.resume("r1", ANA)
    world.controller.rollback("r1", BO)
    assert world.path.read_bytes() == by_hand
    assert world.rollout().state is RolloutState.ROLLED_BACK


def test_a_weight_that_was_lowered_by_hand_deals_users_anew(world: RolloutWorld) -> None:
    world.start()
    world.pass_stage()
    split = {
        "fractional": [{"cat": [world.rollout().salt, TARGETING_KEY]}, ["bolt", 2], ["aks", 98]]
    }
    world.edit_sampler_flag(targeting={"if": [TARGETING_KEY, split]})
    world.controller.tick()
    assert "`bolt` to 2 %" in world.rollout().reason
    world.controller.resume("r1", ANA)

    assert (world.last().old_weight, world.last().new_weight) == (2, 5)
    said = "Users were dealt anew, and the 2 % of the flag file became 5 %."
    assert world.rollout().reason.endswith(said)
    assert world.rollout().epoch == 2
    assert world.serving().arms == Arms("bolt", "aks", 5, "video.sampler/r1/2/")


def test_an_edit_of_another_flag_goes_by_unnoticed_and_stays(world: RolloutWorld) -> None:
    world.start()
    made = json.loads(world.path.read_bytes())
    made["flags"]["video.sampler.shadow"] = flag("uniform")
    put(world.path, made)
    step = world.pass_stage()

    assert step is not None
    assert step.kind is StepKind.ADVANCED
    kept = json.loads(world.path.read_bytes())["flags"]["video.sampler.shadow"]
    assert kept == flag("uniform")


def test_half_a_file_is_news_only_when_it_stays(world: RolloutWorld) -> None:
    world.start()
    good = world.path.read_bytes()
    world.path.write_bytes(good[:50])
    assert world.pass_stage() is None
    world.path.write_bytes(good)
    assert world.pass_stage() is not None
    world.path.unlink()
    assert world.controller.tick() is None
    world.around.now_s += 11
    world.controller.tick()
    assert world.kinds() == ["started", "advanced", "paused"]
    assert "There is no flag file" in world.rollout().reason
    with pytest.raises(UneditableFlagsError):
        world.controller.rollback("r1", BO)


def test_a_pause_while_the_file_is_away_does_not_make_it_somebody_elses(
    world: RolloutWorld,
) -> None:
    before = world.start()
    good = world.path.read_bytes()
    world.path.unlink()
    world.controller.pause("r1", BO)
    world.path.write_bytes(good)
    assert world.controller.tick() is None
    world.controller.resume("r1", ANA)
    assert (world.rollout().salt, world.rollout().epoch) == (before.salt, 1)


def test_without_a_rollout_the_flag_file_need_not_be_there(world: RolloutWorld) -> None:
    world.path.unlink()
    world.path.parent.rename(world.path.parent.with_name("elsewhere"))
    assert world.controller.tick() is None


def test_an_edit_beside_an_advance_by_hand_is_refused(world: RolloutWorld) -> None:
    world.start()
    world.edit_sampler_flag(defaultVariant="uniform")
    with pytest.raises(RolloutRefusedError, match="edited by hand"):
        world.controller.advance("r1", ANA)


def test_an_advance_is_refused_while_a_guard_fails(world: RolloutWorld) -> None:
    world.start()
    world.around.verdict = Verdict.FAIL
    with pytest.raises(RolloutRefusedError, match="A guard fails"):
        world.controller.advance("r1", ANA)


def test_a_candidate_that_was_uninstalled_is_rolled_back(world: RolloutWorld) -> None:
    world.start()
    without = world.restarted(known=KNOWN - {"bolt"})
    without.rollback("r1", BO)
    assert check_flag_text(world.path.read_bytes(), KNOWN - {"bolt"}) == []


def test_a_completed_rollout_is_not_rolled_back_over_somebody_elses_edit(
    world: RolloutWorld,
) -> None:
    world.start(stages=(100,))
    world.pass_stage()
    put(world.path, serving("shot"))
    with pytest.raises(RolloutRefusedError, match="changed since"):
        world.controller.rollback("r1", BO)


@pytest.mark.parametrize("command", ["advance", "pause", "resume", "rollback"])
def test_a_command_in_the_wrong_state_says_what_can_be_done(
    world: RolloutWorld, command: str
) -> None:
    world.start()
    if command != "resume":
        world.controller.rollback("r1", BO)
    with pytest.raises(RolloutRefusedError, match=r"`pause`|`start`|rolled back already"):
        getattr(world.controller, command)("r1", ANA)


def test_an_unknown_rollout_is_not_found(world: RolloutWorld) -> None:
    with pytest.raises(NoSuchRolloutError):
        world.controller.pause("nonesuch", ANA)
