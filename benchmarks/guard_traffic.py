"""Simulated exposures of one stage: heavy-tailed numbers of requests, alike within a user."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from flags.guard_text import parse_guard
from flags.outcomes import Outcomes
from flags.rollout_plan import EpochFacts, Figure, Rollout, RolloutPlan, RolloutState

GUARDS = (
    "sampler_failure<=1%",
    "answer_error<=+0.5%",
    "selection_s.p95<=1.2x",
    "total_s<=1.2x",
    "vision_tokens<=1.05x",
)
STAGE_S = 4 * 3600.0
WINDOW_S = 600.0
USUAL_FAILURE_SHARE = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTraits:
    """What one arm does to a user's answers."""

    failure_share: float = USUAL_FAILURE_SHARE
    fails_since_s: float = 0.0
    """Of answers asked earlier, the usual share fails."""
    error_share: float = 0.002
    slowness: float = 1.0
    """Times selection and total seconds."""
    tokens: float = 2000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    num_users: int
    weight: int
    candidate: ArmTraits = field(default_factory=ArmTraits)
    control: ArmTraits = field(default_factory=ArmTraits)
    likeness: float = 0.5
    """0: a user's answers are independent; towards 1: they are all the same."""
    tail: float = 1.1
    """Exponent of the Pareto distribution of a user's number of answers."""
    most_answers: int = 200


def make_rollout(weight: int, guards: tuple[str, ...] = GUARDS, **settings: float) -> Rollout:
    """A rollout 1, 5, 25, 50% that has just reached `weight`."""
    stages = (1, 5, 25, 50)
    plan = RolloutPlan(
        candidate="aks",
        control="uniform",
        stages=stages,
        dwell_s=3600.0,
        min_users=int(settings.get("min_users", 500)),
        min_answers=int(settings.get("min_answers", 500)),
        guards=tuple(parse_guard(guard) for guard in guards),
        false_alarm_rate=settings.get("false_alarm_rate", 0.05),
        user_window_s=settings.get("user_window_s", WINDOW_S),
        user_answers=int(settings.get("user_answers", 5)),
    )
    facts = EpochFacts(
        candidate_version="1",
        control_version="1",
        encoder_id="e",
        reducer_id="none",
        profile="demo",
        llm_id="llm",
    )
    return Rollout(
        rollout_id="r",
        plan=plan,
        state=RolloutState.RUNNING,
        stage=stages.index(weight),
        stage_started_s=0.0,
        epoch=1,
        epoch_started_s=0.0,
        salt="s",
        facts=facts,
        reason="",
    )


def simulate(traffic: Traffic, rng: np.random.Generator) -> Outcomes:
    """The exposures of one stage of `STAGE_S` seconds, in the order in which they end."""
    num_users = traffic.num_users
    is_candidate = rng.random(num_users) < traffic.weight / 100
    pareto = np.floor(rng.pareto(traffic.tail, num_users) + 1)
    answers = np.minimum(pareto, traffic.most_answers).astype(np.int64)
    user = np.repeat(np.arange(num_users), answers)
    arm = is_candidate[user]
    pace_s = rng.lognormal(np.log(60), 1.0, num_users)[user]
    came_s = rng.uniform(0, STAGE_S, num_users)[user]
    asked_s = came_s + pace_s * (np.arange(len(user)) - np.searchsorted(user, user))
    total_s = _alike(traffic, user, rng, spread=0.9) * _pick(traffic, arm, "slowness")
    order = np.argsort(asked_s + total_s, kind="stable")
    codes = np.full(num_users, -1, dtype=np.int64)
    _, first = np.unique(user[order], return_index=True)
    codes[user[order][np.sort(first)]] = np.arange(num_users)
    fails = np.where(
        asked_s >= _pick(traffic, arm, "fails_since_s"),
        _pick(traffic, arm, "failure_share"),
        USUAL_FAILURE_SHARE,
    )
    figures = {
        Figure.TOTAL_S: total_s,
        Figure.SELECTION_S: 0.01
        * _alike(traffic, user, rng, 0.5)
        * _pick(traffic, arm, "slowness"),
        Figure.VISION_TOKENS: _alike(traffic, user, rng, 0.3) * _pick(traffic, arm, "tokens"),
        Figure.SAMPLER_FAILURE: _rare(traffic, user, fails, rng),
        Figure.ANSWER_ERROR: _rare(traffic, user, _pick(traffic, arm, "error_share"), rng),
    }
    return Outcomes(
        user=codes[user[order]],
        is_candidate=arm[order],
        ended_s=(asked_s + total_s)[order],
        figures={figure: column[order] for figure, column in figures.items()},
    )


def _pick(traffic: Traffic, arm: npt.NDArray[np.bool_], trait: str) -> npt.NDArray[np.float64]:
    return np.where(arm, getattr(traffic.candidate, trait), getattr(traffic.control, trait))


def _alike(
    traffic: Traffic, user: npt.NDArray[np.int64], rng: np.random.Generator, spread: float
) -> npt.NDArray[np.float64]:
    """Lognormal values whose logarithms correlate by `likeness` within a user."""
    own = rng.normal(size=traffic.num_users)[user]
    noise = rng.normal(size=len(user))
    mixed = np.sqrt(traffic.likeness) * own + np.sqrt(1 - traffic.likeness) * noise
    values: npt.NDArray[np.float64] = np.exp(spread * mixed)
    return values


def _rare(
    traffic: Traffic,
    user: npt.NDArray[np.int64],
    share: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """0 or 1 with the mean `share`; with chance `likeness`, an answer repeats its user's draw."""
    own = rng.random(traffic.num_users)[user]
    drawn = np.where(rng.random(len(user)) < traffic.likeness, own, rng.random(len(user)))
    return (drawn < share).astype(np.float64)
