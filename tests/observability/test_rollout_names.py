"""The labels of the rollout's metrics are the values that `flags/` has."""

from __future__ import annotations

from flags.rollout_plan import Figure, RolloutState, StepKind, Verdict
from observability.rollout_names import (
    GuardFigure,
    GuardVerdict,
    RolloutStateLabel,
    RolloutStepLabel,
)


def test_the_labels_are_the_words_of_the_rollout() -> None:
    assert [*map(str, RolloutStepLabel)] == [*map(str, StepKind)]
    assert [*map(str, GuardVerdict)] == [*map(str, Verdict)]
    assert [*map(str, GuardFigure)] == [*map(str, Figure)]
    assert {*map(str, RolloutStateLabel)} < {*map(str, RolloutState)}
