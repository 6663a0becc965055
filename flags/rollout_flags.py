"""What the flag file and the kill switch say of a rollout at this moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flags.flag_edit import Serving, UneditableFlagsError, read_serving
from flags.rollout_changes import Cause
from flags.rollout_journal import cause_of, is_foreign
from flags.rollout_needs import RolloutNeeds
from flags.rollout_plan import Rollout, RolloutStep, StepKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagsNow:
    """One look at both."""

    serving: Serving | None
    """What the file says, also where it is not obeyed only because the candidate is no longer
    known here; None where nothing can be told, and nothing be edited."""
    problem: str | None
    """Why the file is not obeyed; None where it is."""
    is_own: bool
    """Whether `video.sampler` is as the rollout left it."""
    is_killed: bool
    cause: Cause | None
    """Of the pause, where the last step was one."""


def flags_now(needs: RolloutNeeds, rollout: Rollout, steps: Sequence[RolloutStep]) -> FlagsNow:
    """Never raises for whatever the file holds."""
    cause = cause_of(steps[-1])
    serving, is_own, problem = None, False, None
    try:
        content = needs.editor.read()
        is_own = not is_foreign(own_step(steps), content)
        serving = read_serving(content, needs.known_samplers | {rollout.plan.candidate})
        read_serving(content, needs.known_samplers)
    except UneditableFlagsError as exc:
        problem = str(exc)
    return FlagsNow(
        serving=serving,
        problem=problem,
        is_own=is_own,
        is_killed=needs.kill_switch.read().is_on,
        cause=None if cause is None else Cause(cause),
    )


def own_step(steps: Sequence[RolloutStep]) -> RolloutStep:
    """The last step that was the rollout's own doing: a pause notes what it found."""
    return next(step for step in reversed(steps) if step.kind is not StepKind.PAUSED)


def serves_only_arms(rollout: Rollout, serving: Serving) -> bool:
    """Whether somebody gets the candidate, and everybody else the control: the arms are the
    rollout's, whatever their weights."""
    plan = rollout.plan
    return plan.candidate in serving.samplers <= {plan.candidate, plan.control}
