"""How often guards raise a false alarm, how soon they see harm, and how long a look takes.

A/A rollouts through all stages with a look every half hour: both arms are alike, users' numbers
of answers are Pareto-distributed, answers of one user are alike, and the guards leave no margin,
so that every roll-back is a false alarm. Beside it in the same run: a z-test on answers at each
look (its level shared among stages and figures), and ville's betting test on the same users.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from scipy.stats import norm
from ville import BettingCS, BettingTest

from benchmarks.guard_traffic import GUARDS, STAGE_S, ArmTraits, Traffic, make_rollout, simulate
from benchmarks.report import append_result
from flags.guard_figures import mean_of_users
from flags.guard_look import error_rate, look_at_stage
from flags.guards import evaluate_guards
from flags.outcomes import Outcomes
from flags.rollout_plan import Figure, Rollout, Verdict
from flags.statistics import Floats, log_evidence

RATE = 0.05
STAGES = (1, 5, 25, 50)
LOOKS = 8
NO_MARGIN = (
    "sampler_failure<=0.2%",
    "answer_error<=+0%",
    "selection_s.p95<=1x",
    "total_s<=1x",
    "vision_tokens<=1x",
)
Z_TESTED = (Figure.SAMPLER_FAILURE, Figure.ANSWER_ERROR, Figure.TOTAL_S, Figure.VISION_TOKENS)
FAILING = ArmTraits(failure_share=0.10)
TURN_S = 2 * 3600.0
PASS, HELD, FAIL = Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL
CANDIDATES = {
    "like the other arm": ArmTraits(),
    "fails for 1.5% of the answers": ArmTraits(failure_share=0.015),
    "fails for 3%": ArmTraits(failure_share=0.03),
    "fails for 10%": FAILING,
    "1.3% more answers with errors": ArmTraits(error_share=0.015),
    "1.3 times as slow": ArmTraits(slowness=1.3),
    "twice as slow": ArmTraits(slowness=2.0),
    "1.1 times the tokens": ArmTraits(tokens=2200.0),
}
HARM = {
    "sampler_failure<=1%": ArmTraits(failure_share=0.03),
    "answer_error<=+0.5%": ArmTraits(error_share=0.03),
    "selection_s.p95<=1.2x": ArmTraits(slowness=2.0),
    "total_s<=1.2x": ArmTraits(slowness=2.0),
    "vision_tokens<=1.05x": ArmTraits(tokens=2600.0),
}


@dataclass(frozen=True, slots=True)
class Alarms:
    """Whether an A/A rollout was stopped, by each method, and what else was said of it."""

    guards: bool
    z_test: bool
    sample_ratio: bool


@dataclass(frozen=True, slots=True)
class Caught:
    """A failing candidate at the look that stopped it."""

    exposures: int
    failed: int
    minutes: float
    users: int
    users_by_ville: int


def run_same(seed: int) -> Alarms:
    """One A/A rollout; every stage is looked at to its end, so that no alarm is missed."""
    rng = np.random.default_rng(seed)
    stages = [false_alarms_of_stage(weight, rng) for weight in STAGES]
    return Alarms(
        guards=any(stage.guards for stage in stages),
        z_test=any(stage.z_test for stage in stages),
        sample_ratio=any(stage.sample_ratio for stage in stages),
    )


def false_alarms_of_stage(
    weight: int, rng: np.random.Generator, *, num_users: int = 1000, num_looks: int = LOOKS
) -> Alarms:
    """One stage with like arms, looked at `num_looks` times."""
    guards = z_test = sample_ratio = False
    rollout = make_rollout(weight, NO_MARGIN, false_alarm_rate=RATE, min_users=20)
    outcomes = simulate(Traffic(num_users=num_users, weight=weight), rng)
    for now_s in np.linspace(STAGE_S / num_looks, STAGE_S, num_looks).tolist():
        seen = _until(outcomes, now_s)
        report = evaluate_guards(rollout, seen, now_s)
        guards |= report.verdict is Verdict.FAIL
        sample_ratio |= report.sample_ratio.is_mismatch
        z_test |= _z_test(seen)
    return Alarms(guards, z_test, sample_ratio)


def _until(outcomes: Outcomes, now_s: float) -> Outcomes:
    ended = int(np.searchsorted(outcomes.ended_s, now_s, side="right"))
    figures = {figure: column[:ended] for figure, column in outcomes.figures.items()}
    return Outcomes(
        outcomes.user[:ended], outcomes.is_candidate[:ended], outcomes.ended_s[:ended], figures
    )


def _z_test(outcomes: Outcomes) -> bool:
    """Whether the usual test on answers finds the candidate worse in any figure."""
    critical = norm.isf(RATE / len(STAGES) / len(Z_TESTED))
    is_candidate = outcomes.is_candidate
    if min(is_candidate.sum(), (~is_candidate).sum()) < 30:
        return False
    for figure in Z_TESTED:
        one, other = (outcomes.column(figure)[arm] for arm in (is_candidate, ~is_candidate))
        error = np.sqrt(one.var() / len(one) + other.var() / len(other))
        if one.mean() - other.mean() > critical * max(float(error), 1e-12):
            return True
    return False


def run_failing(seed: int) -> Caught:
    """A candidate that fails for 10% of the answers, two users a minute, a look every minute."""
    outcomes = simulate(_failing_traffic(since_s=0.0), np.random.default_rng(seed))
    rollout = make_rollout(50, GUARDS)
    now_s = _caught_s(rollout, outcomes, 0.0)
    alpha = error_rate(rollout.plan.guards[0], look_at_stage(rollout, outcomes, now_s))
    means = _closed_means(outcomes)
    once = np.ones(len(means), dtype=np.int64)
    wealth = [log_evidence(means[:end], once[:end], 0.01) for end in range(1, len(means) + 1)]
    test = BettingTest(0.01, alternative="greater", alpha=alpha).fit(means)
    seen = _until(outcomes, now_s)
    failed = seen.column(Figure.SAMPLER_FAILURE)[seen.is_candidate]
    return Caught(
        exposures=len(failed),
        failed=int(failed.sum()),
        minutes=now_s / 60,
        users=1 + int(np.argmax(np.array(wealth) >= -np.log(alpha))),
        users_by_ville=test.stopping_time() or len(means),
    )


def run_turning(seed: int) -> tuple[float, float]:
    """Minutes until a candidate that began to fail after two good hours is caught: as it is, and
    were the stage only judged as a whole."""
    outcomes = simulate(_failing_traffic(since_s=TURN_S), np.random.default_rng(seed))
    rollout = make_rollout(50, GUARDS[:1])
    whole = replace(rollout, plan=replace(rollout.plan, dwell_s=10 * STAGE_S))
    by_periods_s = _caught_s(rollout, outcomes, TURN_S)
    return (by_periods_s - TURN_S) / 60, (_caught_s(whole, outcomes, TURN_S) - TURN_S) / 60


def _failing_traffic(since_s: float) -> Traffic:
    return Traffic(num_users=960, weight=50, candidate=replace(FAILING, fails_since_s=since_s))


def _caught_s(rollout: Rollout, outcomes: Outcomes, since_s: float) -> float:
    """Seconds of the first look, one a minute, that rolls back; the stage's end if none does."""
    for now_s in np.arange(since_s + 60.0, STAGE_S, 60.0).tolist():
        if evaluate_guards(rollout, _until(outcomes, now_s), now_s).verdict is Verdict.FAIL:
            return float(now_s)
    return STAGE_S


def _closed_means(outcomes: Outcomes) -> Floats:
    look = look_at_stage(make_rollout(50), outcomes, 2 * STAGE_S)
    return mean_of_users(look.values(look.observations.candidate, Figure.SAMPLER_FAILURE))


def users_needed(guard: str, candidate: ArmTraits, wanted: Verdict, seed: int) -> int | None:
    """Users in the candidate arm (and as many in the other) until bounds show `wanted`."""
    rng = np.random.default_rng(seed)
    outcomes = simulate(Traffic(num_users=40_000, weight=50, candidate=candidate), rng)
    # Alone it gets the share of the error that it has among all of GUARDS.
    rollout = make_rollout(50, (guard,), min_users=100, false_alarm_rate=RATE / len(GUARDS))
    for num_users in np.unique(np.geomspace(20, 40_000, 60).astype(int)):
        seen = outcomes.user < num_users
        figures = {figure: column[seen] for figure, column in outcomes.figures.items()}
        part = Outcomes(
            outcomes.user[seen], outcomes.is_candidate[seen], outcomes.ended_s[seen], figures
        )
        report = evaluate_guards(rollout, part, 2 * STAGE_S)
        if report.guards[0].verdict is wanted and report.guards[0].is_proven:
            return report.candidate.users
    return None


def verdict_at_minimum(candidate: ArmTraits, seed: int) -> Verdict:
    """What is said of a candidate when about 550 users of either arm are closed at 50%."""
    outcomes = simulate(
        Traffic(num_users=1100, weight=50, candidate=candidate), np.random.default_rng(seed)
    )
    return evaluate_guards(make_rollout(50), outcomes, 2 * STAGE_S).verdict


def look_seconds(num_users: int) -> tuple[int, float, float]:
    """Exposures, seconds of one look at five guards, and of ville's BettingCS for the same means.

    ville's grid of 10,000 means for both arms of the five guards, one of them measured.
    """
    outcomes = simulate(Traffic(num_users=num_users, weight=50), np.random.default_rng(1))
    rollout = make_rollout(50)
    started = time.perf_counter()
    evaluate_guards(rollout, outcomes, 2 * STAGE_S)
    ours_s = time.perf_counter() - started
    means = _closed_means(outcomes)
    started = time.perf_counter()
    BettingCS(alpha=0.001).fit(means)
    ville_s = (time.perf_counter() - started) * 2 * len(GUARDS)
    return len(outcomes), ours_s, ville_s


def false_alarm_lines(alarms: Sequence[Alarms]) -> list[str]:
    count = len(alarms)
    shares = {
        "guards (`evaluate_guards`)": sum(alarm.guards for alarm in alarms) / count,
        "repeated z-test on answers": sum(alarm.z_test for alarm in alarms) / count,
    }
    mismatches = sum(alarm.sample_ratio for alarm in alarms) / count
    return [
        f"{count:,} A/A rollouts through {len(STAGES)} stages, {LOOKS} looks at each, "
        f"{len(NO_MARGIN)} guards without a margin, stated rate {RATE:.0%}.",
        "",
        "| method | rollouts stopped by a false alarm |",
        "|---|---|",
        *(f"| {method} | {share:.1%} |" for method, share in shares.items()),
        "",
        f"Sample-ratio check: false mismatches in {mismatches:.1%} (stated: at most 0.4%).",
    ]


def caught_lines(runs: Sequence[Caught]) -> list[str]:
    def spread(values: Sequence[float]) -> str:
        return f"{median(values):,.0f} | {np.percentile(values, 95):,.0f}"

    return [
        f"A candidate that fails for 10% of the answers, `{GUARDS[0]}`, {len(runs)} runs, "
        "two users a minute in its arm, a user window of 10 minutes, a look every minute.",
        "",
        "| until it is caught | median | p95 |",
        "|---|---|---|",
        f"| exposures | {spread([run.exposures for run in runs])} |",
        f"| of them answered by `uniform` instead | {spread([run.failed for run in runs])} |",
        f"| minutes | {spread([run.minutes for run in runs])} |",
        f"| closed users | {spread([run.users for run in runs])} |",
        f"| the same by ville's `BettingTest` | {spread([run.users_by_ville for run in runs])} |",
    ]


def turning_lines(runs: Sequence[tuple[float, float]]) -> list[str]:
    by_periods, whole = (sorted(minutes) for minutes in zip(*runs, strict=True))
    return [
        f"The same, but failing only after two good hours, {len(runs)} runs: caught after a median "
        f"of {median(by_periods):.0f} minutes; judged by the whole stage alone, after "
        f"{median(whole):.0f} (at most {(STAGE_S - TURN_S) / 60:.0f} were run).",
    ]


def power_lines(num_runs: int) -> list[str]:
    lines = [
        "| guard | proven kept by a like arm | broken, and how | shown broken |",
        "|---|---|---|---|",
    ]
    for guard, harm in HARM.items():
        kept = _median_users(guard, ArmTraits(), Verdict.PASS, num_runs)
        broken = _median_users(guard, harm, Verdict.FAIL, num_runs)
        lines.append(f"| `{guard}` | {kept} | {_harm_text(harm)} | {broken} |")
    return [f"Users in each arm at 50% (median of {num_runs} runs).", "", *lines]


def verdict_lines(num_runs: int) -> list[str]:
    lines = ["| candidate | pass | held | fail |", "|---|---|---|---|"]
    for name, candidate in CANDIDATES.items():
        counts = Counter(verdict_at_minimum(candidate, seed) for seed in range(num_runs))
        shares = (counts[verdict] / num_runs for verdict in (PASS, HELD, FAIL))
        lines.append(f"| {name} | {' | '.join(f'{share:.0%}' for share in shares)} |")
    guards = ", ".join(f"`{guard}`" for guard in GUARDS)
    return [
        f"One look when 550 users of either arm are closed (the plan asks for 500), "
        f"{num_runs} runs, guards {guards}.",
        "",
        *lines,
    ]


def _median_users(guard: str, candidate: ArmTraits, wanted: Verdict, num_runs: int) -> str:
    found = [users_needed(guard, candidate, wanted, seed) for seed in range(num_runs)]
    users = sorted(np.inf if number is None else number for number in found)[num_runs // 2]
    return f"{users:,.0f}" if np.isfinite(users) else "more than 20,000"


def _harm_text(harm: ArmTraits) -> str:
    usual = ArmTraits()
    if harm.failure_share > usual.failure_share or harm.error_share > usual.error_share:
        return f"{max(harm.failure_share, harm.error_share):.0%} of the answers"
    return f"{max(harm.slowness, harm.tokens / usual.tokens):.2g} times"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=1000)
    parser.add_argument("--failing", type=int, default=200)
    parser.add_argument("--power", type=int, default=11)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.workers) as pool:
        alarms = list(pool.map(run_same, range(arguments.rollouts), chunksize=5))
        runs = list(pool.map(run_failing, range(arguments.failing), chunksize=5))
        turns = list(pool.map(run_turning, range(arguments.failing // 4)))
    exposures, ours_s, ville_s = look_seconds(11_000)
    lines = [
        *false_alarm_lines(alarms),
        "",
        *caught_lines(runs),
        "",
        *turning_lines(turns),
        "",
        *power_lines(arguments.power),
        "",
        *verdict_lines(arguments.failing),
        "",
        f"One look at {len(GUARDS)} guards over {exposures:,} exposures: {ours_s:.2f} s; bounds of "
        f"the same means by ville's `BettingCS`: about {ville_s:.1f} s.",
    ]
    append_result("Guards of a rollout (benchmarks/guards.py)", lines)


if __name__ == "__main__":
    main()
