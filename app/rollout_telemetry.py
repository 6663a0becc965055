"""Counts and logs what happens to rollouts."""

from __future__ import annotations

import logging

from flags.guard_report import GuardReport
from flags.rollout_changes import CONTROLLER
from flags.rollout_plan import Rollout, RolloutStep
from observability.logs import log_event
from observability.metrics import Metrics
from observability.names import Event
from observability.repeats import AlarmLog, RepeatLimiter
from observability.rollout_names import (
    GuardFigure,
    GuardVerdict,
    RolloutStateLabel,
    RolloutStepLabel,
)

logger = logging.getLogger(__name__)


class RolloutTelemetry:
    """Shared by commands and runner."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._alarms = AlarmLog(logger, RepeatLimiter())

    def step_taken(self, step: RolloutStep) -> None:
        self._metrics.rollout_step_taken(RolloutStepLabel(step.kind))
        log_event(
            logger,
            Event.ROLLOUT_STEP,
            step.why,
            level=logging.WARNING,
            rollout_id=step.rollout_id,
            kind=str(step.kind),
            who=step.who,
            is_automatic=step.who == CONTROLLER,
            old_weight=step.old_weight,
            new_weight=step.new_weight,
            epoch=step.epoch,
        )

    def stands(self, rollout: Rollout | None) -> None:
        """The rollout that is not over, if there is one."""
        if rollout is None:
            self._metrics.rollout_is(None, weight=0, stage=0)
        else:
            state = RolloutStateLabel(rollout.state)
            self._metrics.rollout_is(state, weight=rollout.weight, stage=rollout.stage + 1)

    def judged(self, rollout: Rollout, report: GuardReport) -> None:
        for guard, result in zip(rollout.plan.guards, report.guards, strict=True):
            self._metrics.guard_judged(GuardFigure(guard.figure), GuardVerdict(result.verdict))

    def look_failed(self, error: Exception) -> None:
        self._metrics.rollout_look_failed()
        kind = type(error).__name__
        self._alarms.raise_alarm(
            Event.ROLLOUT_LOOK_FAILED, kind, f"The rollout could not be looked at: {error}"
        )
