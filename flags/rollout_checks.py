"""Why a rollout must not start, in words that say what to do instead."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from flags.check import unknown_sampler_fix
from flags.flag_edit import Serving
from flags.rollout_changes import serving_text
from flags.rollout_needs import RolloutNeeds
from flags.rollout_plan import EpochFacts, Figure, Rollout, RolloutPlan

MIN_COVERAGE = 0.99
"""Share of the recent videos that must have what the candidate reads."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands when a start is asked for."""

    serving: Serving | None
    """None: the flag file cannot take a rollout; `flags_problem` says why."""
    flags_problem: str | None
    active: Rollout | None
    facts: EpochFacts | None


def start_refusals(plan: RolloutPlan, around: Surroundings, needs: RolloutNeeds) -> list[str]:
    """Everything that speaks against the start; empty when it may go."""
    reasons = [*_of_plan(plan), *_of_state(around, needs), *_of_candidate(plan, around, needs)]
    if plan.candidate in needs.known_samplers:
        reasons += [*_of_parts(around), *_of_videos(plan, needs), *_of_figures(plan, needs)]
    return reasons


def _of_plan(plan: RolloutPlan) -> Iterator[str]:
    stages = plan.stages
    is_ladder = all(low < high for low, high in pairwise(stages))
    if not stages or not is_ladder or not all(1 <= stage <= 100 for stage in stages):
        yield "The stages must rise, from 1 to 100 percent at most, such as 1,5,25,50,100."
    if not math.isfinite(plan.dwell_s) or plan.dwell_s < 0:
        yield "The dwell time must be 0 or more."
    if plan.min_users < 1 or plan.min_answers < 1:
        yield "At least one user and one answer must be seen in each stage: raise the minimum."
    if not 0 < plan.false_alarm_rate < 0.5:
        yield "The false alarm rate must lie between 0 and 0.5; 0.05 is usual."
    deciding = [guard for guard in plan.guards if not guard.is_dry_run]
    if not any(guard.figure is not Figure.SHADOW_RELEVANCE for guard in deciding):
        yield (
            "No guard would decide: relevance in shadow is not accuracy, and dry runs only watch. "
            "Add one, such as --guard 'sampler_failure<=+1%'."
        )


def _of_state(around: Surroundings, needs: RolloutNeeds) -> Iterator[str]:
    if around.active is not None:
        active = around.active
        yield (
            f"The rollout {active.rollout_id} of `{active.plan.candidate}` is {active.state}. "
            "One at a time: finish it, or `framegate rollout rollback`."
        )
    if needs.kill_switch.read().is_on:
        yield "The kill switch is on. `framegate kill-switch off --why …` first."
    if around.flags_problem is not None:
        yield f"The flag file cannot take a rollout: {around.flags_problem}"


def _of_parts(around: Surroundings) -> Iterator[str]:
    """Of a candidate that is known: of another, nobody knows the version either."""
    if around.facts is None:
        yield "Encoder or language model cannot be asked now. Wait until /readyz answers 200."


def _of_candidate(plan: RolloutPlan, around: Surroundings, needs: RolloutNeeds) -> Iterator[str]:
    if plan.candidate not in needs.known_samplers:
        fix = unknown_sampler_fix(plan.candidate, needs.known_samplers)
        yield f"There is no sampler `{plan.candidate}` here. {fix}."
    lack = needs.why_unusable(plan.candidate)
    if lack is not None:
        yield (
            f"`{plan.candidate}` cannot be served here: {lack}. Mend that and restart the service."
        )
    serving = around.serving
    if serving is None or around.active is not None:
        return
    if not serving.is_enabled:
        yield 'The flag is DISABLED: a split would have no effect. Set its state to "ENABLED".'
    elif serving.everyone is None:
        yield (
            f"{serving_text(serving)} Another split would deal users anew: let everyone get one "
            "sampler first (docs/flags.md), then start."
        )
    elif serving.everyone == plan.candidate:
        yield f"Everyone gets `{plan.candidate}` already. Name another candidate."


def _of_videos(plan: RolloutPlan, needs: RolloutNeeds) -> Iterator[str]:
    coverage = needs.features.coverage(plan.candidate)
    if coverage.num_videos == 0:
        yield "No video is indexed yet, so nothing shows that the candidate works. Upload one."
    elif coverage.share < MIN_COVERAGE:
        missing = coverage.num_videos - coverage.num_covered
        yield (
            f"{missing} of the {coverage.num_videos} latest videos lack features that "
            f"`{plan.candidate}` reads ({coverage.share:.1%} have them, 99 % are needed): their "
            "users would get `uniform` instead. Ask a question about each, which indexes it again."
        )


def _of_figures(plan: RolloutPlan, needs: RolloutNeeds) -> Iterator[str]:
    reasons = (
        needs.figures.why_unmeasurable(guard, plan.candidate, plan.control) for guard in plan.guards
    )
    yield from dict.fromkeys(reason for reason in reasons if reason is not None)
