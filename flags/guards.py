"""Judges a rollout's guards over the exposures of its running stage.

Every stage is judged by its own exposures. Arms that share a stage saw the same hours and the same
load; pooled over stages of different weights they would not have, and a good past would hide what
the candidate does at five times the load. docs/guards.md explains the rules and their price.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flags.dependency_outage import explains_fail, find_outage
from flags.guard_figures import measure
from flags.guard_look import (
    Look,
    can_roll_back,
    least_users,
    look_at_periods,
    look_at_stage,
)
from flags.guard_report import ArmCount, GuardReport, GuardResult, SampleRatio
from flags.guard_text import guard_text
from flags.guard_verdict import NO_OTHER_ARM, Judgement, judge_figures
from flags.observations import ArmObservations
from flags.outcomes import Outcomes
from flags.rollout_plan import Guard, Reference, Rollout, Verdict
from flags.sample_ratio import check_sample_ratio


@dataclass(frozen=True, slots=True)
class _Overall:
    verdict: Verdict
    reason: str
    must_pause: bool = False


def evaluate_guards(rollout: Rollout, outcomes: Outcomes, now_s: float) -> GuardReport:
    """One look at the running stage, at seconds `now_s`; may be repeated at any time.

    `outcomes`: the exposures of the rollout's epoch, or at least those since its running stage
    began. Only those that were decided since then count. A pure function of its arguments: what
    earlier looks saw plays no part.
    """
    look = look_at_stage(rollout, outcomes, now_s)
    periods = look_at_periods(rollout, outcomes, now_s)
    results = tuple(_judge_with_periods(guard, look, periods) for guard in rollout.plan.guards)
    sample_ratio = check_sample_ratio(rollout, look.observations, now_s)
    overall = _judge_all(look, results, sample_ratio)
    return GuardReport(
        verdict=overall.verdict,
        must_pause=overall.must_pause,
        reason=overall.reason,
        at_s=now_s,
        weight=rollout.weight,
        epoch=rollout.epoch,
        candidate=_count(look.observations.candidate),
        control=_count(look.observations.control),
        guards=results,
        sample_ratio=sample_ratio,
    )


def _count(arm: ArmObservations) -> ArmCount:
    open_until_s = arm.open_until_s
    return ArmCount(
        users=arm.num_users,
        answers=arm.num_answers,
        open_users=len(open_until_s),
        first_closes_s=float(open_until_s[0]) if len(open_until_s) else None,
    )


def _judge_with_periods(guard: Guard, look: Look, periods: list[Look]) -> GuardResult:
    result = _judge(guard, look)
    for period in periods if result.verdict is not Verdict.FAIL else []:
        recent = _judge(guard, period)
        if recent.verdict is Verdict.FAIL:
            return replace(recent, reason=f"{recent.reason}, by the latest users alone")
    return result


def _judge(guard: Guard, look: Look) -> GuardResult:
    candidate, control = measure(guard, look)
    needs_other_arm = guard.reference is not Reference.ABSOLUTE
    if needs_other_arm and not look.has_other_arm:
        judgement = Judgement(Verdict.INCONCLUSIVE, False, NO_OTHER_ARM)
    else:
        least = least_users(guard, look.rollout)
        judgement = judge_figures(guard, candidate, control, least)
    if judgement.verdict is Verdict.FAIL and explains_fail(guard, look):
        reason = f"{judgement.reason}, but a dependency failed in both arms"
        judgement = Judgement(Verdict.INCONCLUSIVE, False, reason)
    return GuardResult(
        guard=guard_text(guard),
        verdict=judgement.verdict,
        is_proven=judgement.is_proven,
        decides=can_roll_back(guard),
        is_required=not guard.is_dry_run and (look.has_other_arm or not needs_other_arm),
        is_relative=needs_other_arm,
        candidate=candidate,
        control=control,
        reason=judgement.reason,
    )


def _judge_all(look: Look, results: tuple[GuardResult, ...], sample_ratio: SampleRatio) -> _Overall:
    failed = [
        result
        for result in results
        if result.decides
        and result.verdict is Verdict.FAIL
        and not (sample_ratio.is_mismatch and result.is_relative)
    ]
    if failed:
        return _Overall(Verdict.FAIL, _sentences("Roll back", [_line(result) for result in failed]))
    if sample_ratio.is_mismatch:
        reason = f"Pause: the arms cannot be compared. {sample_ratio.reason}"
        return _Overall(Verdict.INCONCLUSIVE, reason, must_pause=True)
    if outage := find_outage(look):
        return _Overall(Verdict.INCONCLUSIVE, f"Pause: {outage}", must_pause=True)
    if missing := _missing_exposures(look) or [_line(result) for result in _not_passed(results)]:
        return _Overall(Verdict.INCONCLUSIVE, _sentences("Hold", missing))
    return _Overall(Verdict.PASS, _passed_text(look, results))


def _line(result: GuardResult) -> str:
    return f"{result.guard}: {result.reason}"


def _not_passed(results: tuple[GuardResult, ...]) -> list[GuardResult]:
    return [
        result for result in results if result.is_required and result.verdict is not Verdict.PASS
    ]


def _missing_exposures(look: Look) -> list[str]:
    plan, observations = look.rollout.plan, look.observations
    arms = {"candidate": observations.candidate}
    if look.has_other_arm:
        arms["other"] = observations.control
    return [
        f"{arm.num_users:,} of {plan.min_users:,} users and {arm.num_answers:,} of"
        f" {plan.min_answers:,} answers in the {name} arm"
        for name, arm in arms.items()
        if arm.num_users < plan.min_users or arm.num_answers < plan.min_answers
    ]


def _passed_text(look: Look, results: tuple[GuardResult, ...]) -> str:
    required = [result for result in results if result.is_required]
    proven = sum(result.is_proven for result in required)
    users = look.observations.candidate.num_users
    kept = "the guard is" if len(required) == 1 else f"all {len(required)} guards are"
    return (
        f"Pass: {kept} kept for {users:,} users of the candidate at"
        f" {look.rollout.weight}%, {proven} of them proven"
    )


def _sentences(verb: str, lines: list[str]) -> str:
    return f"{verb}: {'. '.join(lines)}."
