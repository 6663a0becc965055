"""A staged rollout: its commands, and the part that needs nobody.

The controller keeps nothing in memory that matters: every call reads the ledger, so that any
process may make it, and the next one goes on where a crash interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from flags.check import unknown_sampler_fix
from flags.flag_edit import UneditableFlagsError, read_serving
from flags.guard_report import GuardReport
from flags.keys import BASELINE
from flags.rollout_changes import (
    By,
    Cause,
    Change,
    automatic,
    dealt_anew,
    evidence_of,
    new_epoch,
    paused,
    raised,
    resumed,
    rolled_back,
    started,
)
from flags.rollout_checks import Surroundings, start_refusals
from flags.rollout_flags import FlagsNow, flags_now, own_step
from flags.rollout_interruptions import Interruptions, is_interrupted
from flags.rollout_journal import Journal, is_foreign
from flags.rollout_needs import NoSuchRolloutError, RolloutNeeds, RolloutRefusedError
from flags.rollout_plan import (
    Guard,
    Rollout,
    RolloutPlan,
    RolloutState,
    RolloutStep,
    Verdict,
)
from flags.targeting import TOTAL_WEIGHT

_WAY_ON = {
    RolloutState.RUNNING: "`pause` or `rollback` it, or `advance`.",
    RolloutState.PAUSED: "`resume` or `rollback` it.",
    RolloutState.COMPLETED: "`rollback` gives everyone the control again.",
    RolloutState.ROLLED_BACK: "`start` begins a new one.",
}

_OVER = frozenset({RolloutState.COMPLETED, RolloutState.ROLLED_BACK})


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A rollout as it is asked for; the control is what everyone gets now."""

    candidate: str
    stages: tuple[int, ...]
    dwell_s: float
    min_users: int
    min_answers: int
    guards: tuple[Guard, ...]
    false_alarm_rate: float = 0.05
    user_window_s: float = 600.0
    user_answers: int = 5

    def plan(self, control: str) -> RolloutPlan:
        return RolloutPlan(
            candidate=self.candidate,
            control=control,
            stages=self.stages,
            dwell_s=self.dwell_s,
            min_users=self.min_users,
            min_answers=self.min_answers,
            guards=self.guards,
            false_alarm_rate=self.false_alarm_rate,
            user_window_s=self.user_window_s,
            user_answers=self.user_answers,
        )


class RolloutController:
    """Blocking; shared by threads.

    Commands raise `RolloutRefusedError`, `NoSuchRolloutError` and `UneditableFlagsError`; when
    one returns, its step is committed and the flag file says so.
    """

    def __init__(self, needs: RolloutNeeds) -> None:
        self._needs = needs
        self._journal = Journal(needs)
        self._interruptions = Interruptions(needs)

    def start(self, request: StartRequest, by: By) -> RolloutStep:
        """Deal the first stage's users to the candidate."""
        needs = self._needs
        with self._recovered():
            active = needs.store.active_rollout()
            problem, content, serving = None, b"", None
            try:
                content = needs.editor.read()
                serving = read_serving(content, needs.known_samplers)
            except UneditableFlagsError as exc:
                problem = str(exc)
            plan = request.plan((serving and serving.everyone) or request.candidate)
            facts = needs.facts.facts(plan.candidate, plan.control)
            reasons = start_refusals(plan, Surroundings(serving, problem, active, facts), needs)
            if reasons or facts is None:
                raise RolloutRefusedError(reasons)
            change = started(needs.new_id(), plan, facts, needs.clock(), by)
            return self._journal.carry_out(change, content)

    def advance(self, rollout_id: str, by: By) -> RolloutStep:
        """Go to the next stage now, without waiting; after the last one, to everyone.

        Refused while a guard fails, and unless the rollout is running undisturbed.
        """
        report = self.judge(self.find(rollout_id))
        with self._recovered():
            rollout = self._in_state(rollout_id, RolloutState.RUNNING)
            content = self._needs.editor.read()
            steps = self._needs.store.rollout_steps(rollout_id)
            interruption = self._interruptions.change(rollout, steps, content)
            if interruption is not None:
                raise RolloutRefusedError([interruption.rollout.reason])
            if report.verdict is Verdict.FAIL:
                raise RolloutRefusedError([f"A guard fails. {report.reason}"])
            change = raised(rollout, self._needs.clock(), by, report)
            return self._journal.carry_out(change, content)

    def pause(self, rollout_id: str, by: By) -> RolloutStep:
        """Keep the weights as they are until `resume`; guards go on watching."""
        with self._recovered():
            rollout = self._in_state(rollout_id, RolloutState.RUNNING)
            change = paused(rollout, Cause.OPERATOR, by)
            return self._journal.carry_out(change, self._interruptions.content())

    def resume(self, rollout_id: str, by: By) -> RolloutStep:
        """Go on in the stage where it was paused, its dwell time starting anew.

        After a kill switch or an edit by hand users left their arm, so that they are dealt anew:
        another salt, another epoch.
        """
        needs = self._needs
        with self._recovered():
            rollout = self._in_state(rollout_id, RolloutState.PAUSED)
            if needs.kill_switch.read().is_on:
                reason = "The kill switch is on. `framegate kill-switch off --why …` first."
                raise RolloutRefusedError([reason])
            content = needs.editor.read()
            steps = needs.store.rollout_steps(rollout_id)
            serving = read_serving(content, needs.known_samplers)
            if is_interrupted(steps) or is_foreign(steps[-1], content):
                change = dealt_anew(rollout, serving, needs.clock(), by)
            else:
                change = resumed(rollout, needs.clock(), by)
            return self._journal.carry_out(change, content)

    def rollback(self, rollout_id: str, by: By, *, to: str | None = None) -> RolloutStep:
        """Everyone gets the control, or the sampler `to`; the next answer obeys.

        Also of a completed rollout, and with `to` of one that is rolled back, as long as nobody
        changed the flag since.
        """
        with self._recovered():
            rollout = self.find(rollout_id)
            if to is None and rollout.state is RolloutState.ROLLED_BACK:
                reason = (
                    "It is rolled back already. If what everyone gets now is bad, too: "
                    f"`--to {BASELINE}`, or another sampler."
                )
                raise RolloutRefusedError([reason])
            self._check_target(rollout, to)
            content = self._needs.editor.read()
            if rollout.state in _OVER:
                self._check_still_served(rollout, content)
            return self._roll_back(rollout, content, by, to=to)

    def tick(self) -> RolloutStep | None:
        """Look once, take the step that is due, if any, and return it.

        Raises `UneditableFlagsError` where a due step cannot be taken; the next look tries again.
        """
        store = self._needs.store
        if store.active_rollout() is None and store.open_intent() is None:
            return None
        with self._needs.editor.locked():
            recovered = self._journal.recover()
            rollout = store.active_rollout()
        if recovered is not None or rollout is None:
            return recovered
        # Outside the lock: a command must not wait for statistics.
        report = self.judge(rollout)
        with self._recovered():
            if store.active_rollout() != rollout:
                return None
            return self._take_step(rollout, report)

    def find(self, rollout_id: str) -> Rollout:
        """Raises `NoSuchRolloutError`."""
        rollout = self._needs.store.find_rollout(rollout_id)
        if rollout is None:
            raise NoSuchRolloutError(f"There is no rollout {rollout_id}.")
        return rollout

    def flags_now(self, rollout: Rollout) -> FlagsNow:
        """What the flag file and the kill switch say of it now."""
        return flags_now(self._needs, rollout, self._needs.store.rollout_steps(rollout.rollout_id))

    def judge(self, rollout: Rollout) -> GuardReport:
        """What the guards say of the running stage now."""
        outcomes = self._needs.outcomes.outcomes(rollout)
        return self._needs.evaluate(rollout, outcomes, self._needs.clock())

    @contextmanager
    def _recovered(self) -> Iterator[None]:
        """The flag file is ours, and no step is half-done."""
        with self._needs.editor.locked():
            self._journal.recover()
            yield

    def _take_step(self, rollout: Rollout, report: GuardReport) -> RolloutStep | None:
        steps = self._needs.store.rollout_steps(rollout.rollout_id)
        content = self._interruptions.content()
        if content is not None and self._may_answer(rollout, content, report):
            return self._guard_rolls_back(rollout, steps, content, report)
        change = self._interruptions.change(rollout, steps, content)
        change = change or self._interruptions.unanswered(rollout, steps, content, report)
        if change is not None:
            return self._journal.carry_out(change, content)
        if content is None or is_interrupted(steps):
            return None
        return self._due(rollout, report, content)

    def _due(self, rollout: Rollout, report: GuardReport, content: bytes) -> RolloutStep | None:
        """The step that the verdict asks for. A paused rollout is still rolled back."""
        if report.verdict is Verdict.FAIL:
            # Not done before, so the file has errors: this raises what they are.
            return self._roll_back(rollout, content, automatic(report.reason), report=report)
        if rollout.state is RolloutState.PAUSED:
            return None
        facts = self._needs.facts.facts(rollout.plan.candidate, rollout.plan.control)
        if facts is not None and facts != rollout.facts:
            change = new_epoch(rollout, facts, self._needs.clock())
            return self._journal.carry_out(change, content)
        if report.must_pause:
            by, evidence = automatic(report.reason), evidence_of(report)
            change = paused(rollout, Cause.GUARDS, by, evidence)
            return self._journal.carry_out(change, content)
        if facts is None or not self._may_leave_stage(rollout, report):
            return None
        change = raised(rollout, self._needs.clock(), automatic(report.reason), report)
        return self._journal.carry_out(change, content)

    def _may_answer(self, rollout: Rollout, content: bytes, report: GuardReport) -> bool:
        is_failing = report.verdict is Verdict.FAIL
        return is_failing and self._interruptions.may_roll_back(rollout, content)

    def _guard_rolls_back(
        self,
        rollout: Rollout,
        steps: Sequence[RolloutStep],
        content: bytes,
        report: GuardReport,
    ) -> RolloutStep:
        why = report.reason
        if is_foreign(own_step(steps), content):
            why += f" The flag file was edited by hand and still dealt `{rollout.plan.candidate}`."
        return self._roll_back(rollout, content, automatic(why), report=report)

    def _may_leave_stage(self, rollout: Rollout, report: GuardReport) -> bool:
        dwelt_s = self._needs.clock() - rollout.stage_started_s
        is_over = dwelt_s >= rollout.plan.dwell_s
        return (
            is_over
            and not waits_for_a_person(rollout)
            and report.verdict is Verdict.PASS
            and has_enough_data(rollout, report)
        )

    def _roll_back(
        self,
        rollout: Rollout,
        content: bytes,
        by: By,
        *,
        to: str | None = None,
        report: GuardReport | None = None,
    ) -> RolloutStep:
        # The candidate may have been uninstalled meanwhile, which must not keep it in place.
        known = self._needs.known_samplers | {rollout.plan.candidate}
        change: Change = rolled_back(rollout, read_serving(content, known), by, to)
        if report is not None:
            change = replace(change, evidence=evidence_of(report))
        return self._journal.carry_out(change, content)

    def _in_state(self, rollout_id: str, state: RolloutState) -> Rollout:
        rollout = self.find(rollout_id)
        if rollout.state is not state:
            way_on = _WAY_ON[rollout.state]
            stands = rollout.state.replace("_", " ")
            raise RolloutRefusedError([f"The rollout is {stands}: {way_on}"])
        return rollout

    def _check_target(self, rollout: Rollout, to: str | None) -> None:
        if to is not None and to not in self._needs.known_samplers:
            fix = unknown_sampler_fix(to, self._needs.known_samplers)
            reason = f"There is no sampler `{to}` here to roll back to. {fix}."
            raise RolloutRefusedError([reason])
        if to == rollout.plan.candidate:
            raise RolloutRefusedError([f"`{to}` is the candidate, away from which you roll back."])

    def _check_still_served(self, rollout: Rollout, content: bytes) -> None:
        [*_, last] = self._needs.store.rollout_steps(rollout.rollout_id)
        if self._needs.store.active_rollout() is not None or is_foreign(last, content):
            reason = (
                "The flag was changed since the rollout ended. Roll back what runs now, or edit "
                "the flag file (docs/flags.md); `framegate kill-switch on --why …` serves "
                f"`{BASELINE}` at once."
            )
            raise RolloutRefusedError([reason])


def waits_for_a_person(rollout: Rollout) -> bool:
    """Whether the last stage is below 100 %: guards watch on, and a person has the last word."""
    return rollout.stage + 1 == len(rollout.plan.stages) and rollout.weight < TOTAL_WEIGHT


def has_enough_data(rollout: Rollout, report: GuardReport) -> bool:
    """Whether the stage saw as many users and answers as the plan asks for, in each arm that gets
    any."""
    arms = (
        [report.candidate]
        if rollout.weight == TOTAL_WEIGHT
        else [
            report.candidate,
            report.control,
        ]
    )
    plan = rollout.plan
    return all(arm.users >= plan.min_users and arm.answers >= plan.min_answers for arm in arms)
