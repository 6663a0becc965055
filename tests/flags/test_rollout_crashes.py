"""A crash at any point of any step: nothing is lost, nothing happens twice, the file is whole."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flags.check import check_flag_text
from flags.flag_edit import UneditableFlagsError, content_digest
from flags.flag_file_editor import FlagFileEditor
from flags.rollout import RolloutController
from flags.rollout_changes import EDIT_S, By
from flags.rollout_needs import RolloutRefusedError
from flags.rollout_plan import RolloutState, StepKind, Verdict
from tests.flags.flag_files import KNOWN, flag, put, serving
from tests.flags.rollout_world import ANA, DWELL_S, RolloutWorld, request

STORE_CALLS = (
    "active_rollout",
    "find_rollout",
    "rollout_steps",
    "save_rollout",
    "put_intent",
    "open_intent",
    "close_intent",
)
EDITOR_CALLS = ("read", "write")


class Crash(BaseException):
    """The process is gone: nothing in it may catch this."""


class Fuse:
    """Burns down at every call, before and after the call does its work."""

    def __init__(self) -> None:
        self.left: int | None = None
        """Points until the crash; None: no crash."""

    def burn(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            raise Crash
        self.left -= 1


class Fused:
    """The same object, whose calls may crash."""

    def __init__(self, target: Any, calls: tuple[str, ...], fuse: Fuse) -> None:
        self._target, self._calls, self._fuse = target, calls, fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name not in self._calls:
            return found

        def call(*arguments: Any) -> Any:
            self._fuse.burn()
            result = found(*arguments)
            self._fuse.burn()
            return result

        return call


class Story:
    """Commands and looks, some cut short; after each cut a new process goes on."""

    def __init__(self, folder: Path) -> None:
        self.world = RolloutWorld(folder)
        self.fuse = Fuse()
        self.acknowledged: list[tuple[str, int]] = []
        self.controller = self._process()

    def _process(self) -> RolloutController:
        world, fuse = self.world, self.fuse

        def clock() -> float:
            fuse.burn()
            return world.around.now_s

        return world.restarted(
            Fused(world.store, STORE_CALLS, fuse), Fused(world.editor, EDITOR_CALLS, fuse), clock
        )

    def play(self, action: str, crash_after: int | None) -> bool:
        """Whether it was cut short."""
        is_cut = False
        weight_before = self.world.weight()
        self.fuse.left = crash_after
        try:
            with suppress(RolloutRefusedError):
                step = self._act(action)
                if step is not None:
                    self.acknowledged.append((step.rollout_id, step.sequence))
        except Crash:
            is_cut = True
            self._check_file()
            self.controller = self._process()
        self.fuse.left = None
        self._check_file()
        self._check_weight(weight_before)
        return is_cut

    def _act(self, action: str) -> Any:
        around, controller = self.world.around, self.controller
        by = By("bo", action)
        rollout_id = f"r{around.num_ids}"
        around.now_s += DWELL_S + EDIT_S
        if action == "start":
            return controller.start(request(stages=(5, 50, 100)), ANA)
        if action in ("pass", "fail"):
            around.verdict = Verdict(action)
            return controller.tick()
        around.verdict = Verdict.INCONCLUSIVE
        if self.world.store.find_rollout(rollout_id) is None:
            return None
        commands: dict[str, Callable[..., Any]] = {
            "advance": controller.advance,
            "pause": controller.pause,
            "resume": controller.resume,
            "rollback": controller.rollback,
        }
        return commands[action](rollout_id, by)

    def _check_file(self) -> None:
        assert check_flag_text(self.world.path.read_bytes(), KNOWN) == []

    def _check_weight(self, before: int) -> None:
        if self.world.weight() < before:
            intent, store = self.world.store.intent, self.world.store
            last = intent.step if intent else store.steps[f"r{self.world.around.num_ids}"][-1]
            assert last.kind in (StepKind.ROLLED_BACK, StepKind.STARTED)

    def check_end(self) -> None:
        """After a last look in a process that nothing cuts short."""
        self.world.around.verdict = Verdict.INCONCLUSIVE
        self.controller.tick()
        store = self.world.store
        assert store.intent is None
        for rollout_id, sequence in self.acknowledged:
            assert store.steps[rollout_id][sequence - 1].sequence == sequence
        for rollout_id, steps in store.steps.items():
            self._check_ladder([step.kind for step in steps], [step.stage for step in steps])
            assert steps[-1].stage == store.rollouts[rollout_id].stage
        if store.rollouts:
            latest = list(store.steps.values())[-1][-1]
            assert latest.flag_digest_after == content_digest(self.world.path.read_bytes())

    @staticmethod
    def _check_ladder(kinds: list[StepKind], stages: list[int]) -> None:
        assert kinds.count(StepKind.STARTED) == 1
        assert kinds.count(StepKind.COMPLETED) <= 1
        assert kinds.count(StepKind.ROLLED_BACK) <= 1
        climbed = [s for k, s in zip(kinds, stages, strict=True) if k is StepKind.ADVANCED]
        assert climbed == list(range(1, len(climbed) + 1))


@contextmanager
def story() -> Iterator[Story]:
    folder = Path(tempfile.mkdtemp(prefix="framegate-"))
    try:
        yield Story(folder)
    finally:
        shutil.rmtree(folder)


ACTIONS = st.sampled_from(
    ["start", "pass", "pass", "advance", "pause", "resume", "fail", "rollback"]
)
CUTS = st.none() | st.integers(0, 40)


@settings(max_examples=150, deadline=None)
@given(scenes=st.lists(st.tuples(ACTIONS, CUTS), min_size=1, max_size=8))
def test_whatever_is_cut_short_goes_on_in_the_next_process(
    scenes: list[tuple[str, int | None]],
) -> None:
    with story() as told:
        told.play("start", None)
        for action, crash_after in scenes:
            told.play(action, crash_after)
        told.check_end()


@pytest.mark.parametrize("crash_again_after", [None, 2, 9])
@pytest.mark.parametrize("action", ["start", "pass", "advance", "pause", "fail", "rollback"])
def test_every_point_of_a_step_may_be_the_last_one(
    action: str, crash_again_after: int | None
) -> None:
    """The next process is cut short as well; the third one goes on."""
    for crash_after in count():
        with story() as told:
            if action != "start":
                told.play("start", None)
            is_cut = told.play(action, crash_after)
            told.play("pass", crash_again_after)
            told.check_end()
        if not is_cut:
            assert crash_after > 10
            return


def test_a_rollback_that_was_cut_after_its_write_is_finished(tmp_path: Path) -> None:
    told = Story(tmp_path)
    told.play("start", None)
    cut = 0
    while told.world.weight() == 5:
        told.play("rollback", cut)
        cut += 1
        if told.world.weight() == 5 and told.world.store.intent is not None:
            break
    # The intent is committed and the file is not written yet: the next process does it.
    told.controller.tick()
    assert told.world.weight() == 0
    assert told.world.rollout().state is RolloutState.ROLLED_BACK
    assert told.world.kinds() == ["started", "rolled_back"]


class FullDisk:
    """An editor whose writes fail."""

    def __init__(self, editor: FlagFileEditor) -> None:
        self.locked, self.read = editor.locked, editor.read

    def write(self, content: bytes) -> None:
        raise UneditableFlagsError("the disk is full")


def test_a_step_whose_write_failed_is_not_taken_later(tmp_path: Path) -> None:
    world = RolloutWorld(tmp_path)
    with pytest.raises(UneditableFlagsError, match="disk is full"):
        world.restarted(editor=FullDisk(world.editor)).start(request(), ANA)
    assert world.controller.tick() is None
    assert world.store.rollouts == {}


def intended(tmp_path: Path, action: str) -> Story:
    """A story cut short when the intent of the action was committed and nothing else was done."""
    for crash_after in count():
        shutil.rmtree(tmp_path / "story", ignore_errors=True)
        (tmp_path / "story").mkdir()
        told = Story(tmp_path / "story")
        told.play("start", None)
        told.play(action, crash_after)
        if told.world.store.intent is not None:
            return told
    raise AssertionError


def test_what_stands_beside_the_sampler_flag_is_kept_when_a_step_is_done_again(
    tmp_path: Path,
) -> None:
    told = intended(tmp_path, "pass")
    made = json.loads(told.world.path.read_bytes())
    made["flags"]["video.sampler.shadow"] = flag("uniform")
    put(told.world.path, made)
    told.controller.tick()

    assert told.world.weight() == 50
    kept = json.loads(told.world.path.read_bytes())["flags"]["video.sampler.shadow"]
    assert kept == flag("uniform")
    assert told.world.last().flag_digest_after == content_digest(told.world.path.read_bytes())


def test_a_step_is_given_up_when_somebody_else_changed_the_sampler_flag(tmp_path: Path) -> None:
    told = intended(tmp_path, "pass")
    put(told.world.path, serving("uniform"))
    told.controller.tick()
    assert told.world.kinds() == ["started", "paused"]
    assert told.world.serving().everyone == "uniform"
    assert told.world.store.intent is None
