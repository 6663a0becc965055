"""A rollout on a real flag file, a fake ledger, and guards that say what the test wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flags.flag_edit import Serving, read_serving
from flags.flag_file_editor import FlagFileEditor
from flags.guard_report import ArmCount, GuardReport, SampleRatio
from flags.kill_switch import FileKillSwitch
from flags.outcomes import Outcomes
from flags.provider import DEFAULT_FLAGS_PATH
from flags.rollout import RolloutController, StartRequest
from flags.rollout_changes import EDIT_S, By
from flags.rollout_needs import Coverage, FlagEditor, RolloutNeeds, RolloutStore
from flags.rollout_plan import (
    Comparison,
    EpochFacts,
    Figure,
    Guard,
    Reference,
    Rollout,
    RolloutStep,
    Statistic,
    Verdict,
)
from tests.fakes import FakeRolloutStore
from tests.flags.flag_files import KNOWN, put

ANA = By("ana", "the new one is better")
DWELL_S = 60.0
FACTS = EpochFacts(
    candidate_version="1",
    control_version="1",
    encoder_id="fake@1",
    reducer_id="merge",
    profile="demo",
    llm_id="llm",
)
GUARD = Guard(Figure.SAMPLER_FAILURE, Statistic.MEAN, Comparison.AT_MOST, 0.01, Reference.ABSOLUTE)


def request(**changes: Any) -> StartRequest:
    fields: dict[str, Any] = {
        "candidate": "bolt",
        "stages": (1, 5, 25),
        "dwell_s": DWELL_S,
        "min_users": 10,
        "min_answers": 20,
        "guards": (GUARD,),
    }
    return StartRequest(**(fields | changes))


def no_outcomes() -> Outcomes:
    nothing = np.zeros(0)
    return Outcomes(
        user=nothing.astype(np.int64),
        is_candidate=nothing.astype(np.bool_),
        ended_s=nothing,
        figures={},
    )


@dataclass
class Surroundings:
    """What the controller asks about; a test changes it."""

    now_s: float = 1_000_000.0
    verdict: Verdict = Verdict.INCONCLUSIVE
    must_pause: bool = False
    count: ArmCount = field(default_factory=lambda: ArmCount(users=10, answers=20))
    facts_now: EpochFacts | None = FACTS
    videos: Coverage = field(default_factory=lambda: Coverage(100, 100))
    unmeasurable: str | None = None
    num_ids: int = 0

    def clock(self) -> float:
        return self.now_s

    def outcomes(self, rollout: Rollout) -> Outcomes:
        return no_outcomes()

    def facts(self, candidate: str, control: str) -> EpochFacts | None:
        return self.facts_now

    def coverage(self, sampler_id: str) -> Coverage:
        return self.videos

    def why_unmeasurable(self, guard: Guard, candidate: str, control: str) -> str | None:
        return self.unmeasurable

    def new_id(self) -> str:
        self.num_ids += 1
        return f"r{self.num_ids}"

    def evaluate(self, rollout: Rollout, outcomes: Outcomes, now_s: float) -> GuardReport:
        return GuardReport(
            verdict=self.verdict,
            must_pause=self.must_pause,
            reason=f"It is {self.verdict}.",
            at_s=now_s,
            weight=rollout.weight,
            epoch=rollout.epoch,
            candidate=self.count,
            control=self.count,
            guards=(),
            sample_ratio=SampleRatio(
                expected_share=rollout.weight / 100,
                observed_share=None,
                users=0,
                users_in_both_arms=0,
                p_value=1.0,
                is_mismatch=False,
                reason="",
            ),
        )


class RolloutWorld:
    """One folder; `controller` may be replaced by a new one at any time, as after a restart."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "flags.json"
        self.path.write_bytes(DEFAULT_FLAGS_PATH.read_bytes())
        self.around = Surroundings()
        self.store = FakeRolloutStore()
        self.editor = FlagFileEditor(self.path)
        self.kill_switch = FileKillSwitch(folder / "kill-switch.json")
        self.controller = self.restarted()

    def restarted(
        self,
        store: RolloutStore | None = None,
        editor: FlagEditor | None = None,
        clock: Callable[[], float] | None = None,
        known: frozenset[str] = KNOWN,
        why_unusable: Callable[[str], str | None] = lambda _: None,
    ) -> RolloutController:
        around = self.around
        return RolloutController(
            RolloutNeeds(
                store=store or self.store,
                editor=editor or self.editor,
                outcomes=around,
                facts=around,
                features=around,
                figures=around,
                kill_switch=self.kill_switch,
                evaluate=around.evaluate,
                clock=clock or around.clock,
                new_id=around.new_id,
                known_samplers=known,
                why_unusable=why_unusable,
            )
        )

    def start(self, **changes: Any) -> Rollout:
        step = self.controller.start(request(**changes), ANA)
        return self.rollout(step.rollout_id)

    def rollout(self, rollout_id: str = "r1") -> Rollout:
        return self.store.rollouts[rollout_id]

    def kinds(self, rollout_id: str = "r1") -> list[str]:
        return [str(step.kind) for step in self.store.steps[rollout_id]]

    def last(self, rollout_id: str = "r1") -> RolloutStep:
        return self.store.steps[rollout_id][-1]

    def serving(self) -> Serving:
        return read_serving(self.path.read_bytes(), KNOWN)

    def weight(self) -> int:
        """The candidate's, by the flag file."""
        serving = self.serving()
        if serving.arms is None:
            return 100 if serving.default == "bolt" else 0
        return serving.arms.weight

    def pass_stage(self) -> RolloutStep | None:
        """A tick at the end of the dwell time, every guard passing."""
        self.around.now_s += DWELL_S + EDIT_S
        self.around.verdict = Verdict.PASS
        return self.controller.tick()

    def edit_sampler_flag(self, **changes: Any) -> None:
        made = json.loads(self.path.read_bytes())
        made["flags"]["video.sampler"] |= changes
        put(self.path, made)
