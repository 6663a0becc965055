"""Whether users were dealt as the flag says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.guard_traffic import make_rollout
from flags.guard_report import SampleRatio
from flags.observations import Span, observe
from flags.rollout_plan import Rollout
from flags.sample_ratio import MISMATCH_P_VALUE, check_sample_ratio
from tests.flags.exposures import Exposure, outcomes_of

NOW_S = 10_000.0


def check(rollout: Rollout, exposures: list[Exposure]) -> SampleRatio:
    outcomes = outcomes_of(exposures)
    observations = observe(rollout.plan, outcomes, Span(0.0, math.inf), NOW_S)
    return check_sample_ratio(rollout, observations, NOW_S)


def dealt(share: float, num_users: int, seed: int) -> list[Exposure]:
    arms = np.random.default_rng(seed).random(num_users) < share
    return [Exposure(str(user), bool(arm), float(user)) for user, arm in enumerate(arms)]


@pytest.mark.parametrize("weight", [1, 25, 50])
def test_users_dealt_by_the_weight_hardly_ever_look_like_a_mismatch(weight: int) -> None:
    rollout = make_rollout(weight)
    found = [check(rollout, dealt(weight / 100, 2000, seed)).is_mismatch for seed in range(100)]
    assert sum(found) == 0


def test_a_tenth_of_the_candidates_users_that_is_lost_is_found() -> None:
    ratio = check(make_rollout(50), dealt(0.45, 5000, 1))
    assert ratio.is_mismatch
    assert ratio.p_value < MISMATCH_P_VALUE
    assert "Look for exposures that are lost in one arm" in ratio.reason


def test_users_who_came_within_the_last_window_are_not_counted() -> None:
    rollout = make_rollout(50)
    young = [Exposure(f"young-{user}", False, NOW_S - 1.0) for user in range(500)]
    ratio = check(rollout, [*dealt(0.5, 500, 1), *young])
    assert (ratio.users, ratio.is_mismatch) == (500, False)


def test_nobody_is_no_mismatch() -> None:
    ratio = check(make_rollout(1), [])
    assert (ratio.observed_share, ratio.is_mismatch) == (None, False)
    assert ratio.reason == "No user has been here for a user window yet"


def test_users_of_both_arms_are_a_mismatch() -> None:
    switched = [Exposure(str(user), True, 3000.0 + user) for user in range(40)]
    ratio = check(make_rollout(50), [*dealt(0.5, 1000, 1), *switched])
    assert 10 < ratio.users_in_both_arms < 30
    assert ratio.is_mismatch
    assert "were dealt to both arms" in ratio.reason
