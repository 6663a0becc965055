"""The exposures of one epoch as columns: what guards are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from flags.rollout_plan import Figure

Column: TypeAlias = npt.NDArray[np.float64]
IntColumn: TypeAlias = npt.NDArray[np.int64]
BoolColumn: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """`A` exposures in the order in which their answers ended. Read-only arrays.

    Arms are as assigned: an exposure whose sampler fell back stays with its arm.
    """

    user: IntColumn
    """[A] dense codes 0..U-1, in the order of the users' first exposures."""
    is_candidate: BoolColumn
    """[A]"""
    ended_s: Column
    """[A] seconds since the epoch."""
    figures: Mapping[Figure, Column]
    """[A] each; NaN where the figure is not known for that exposure."""

    known_s: Mapping[Figure, Column] = field(default_factory=dict)
    """[A] each: seconds since the epoch when a figure that comes after the answer (feedback, a
    shadow comparison) became known; a figure that is missing here was known at `ended_s`."""

    def column(self, figure: Figure) -> Column:
        """[A] NaN where not known; all NaN for a figure that was never measured."""
        column = self.figures.get(figure)
        return np.full(len(self), np.nan) if column is None else column

    def __len__(self) -> int:
        return len(self.user)
