"""Like arms under repeated looks, in small; benchmarks/guards.py does it in large."""

from __future__ import annotations

import numpy as np

from benchmarks.guards import NO_MARGIN, Alarms, false_alarms_of_stage


def test_like_arms_are_stopped_no_more_often_than_stated() -> None:
    """200 stages of 120 users with Pareto-distributed, alike answers, looked at four times; the
    stage has its share of the rate. A z-test on the same answers shows that the case is hard."""
    alarms: list[Alarms] = [
        false_alarms_of_stage(50, np.random.default_rng(seed), num_users=120, num_looks=4)
        for seed in range(200)
    ]
    assert len(NO_MARGIN) == 5
    assert sum(alarm.guards for alarm in alarms) / 200 <= 0.05 / 4
    assert sum(alarm.z_test for alarm in alarms) / 200 > 0.05
    assert sum(alarm.sample_ratio for alarm in alarms) == 0
