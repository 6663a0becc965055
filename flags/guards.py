"""Judges a rollout's guards over the exposures of its running stage."""

from __future__ import annotations

from flags.guard_report import GuardReport
from flags.outcomes import Outcomes
from flags.rollout_plan import Rollout


def evaluate_guards(rollout: Rollout, outcomes: Outcomes, now_s: float) -> GuardReport:
    """One look at the running stage, at seconds `now_s`; may be repeated at any time.

    `outcomes`: the exposures of the rollout's epoch, or at least those since its running stage
    began. Only those that were decided since then count. A pure function of its arguments.
    """
    raise NotImplementedError
