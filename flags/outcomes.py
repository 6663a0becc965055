"""The exposures of one epoch as columns: what guards are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from flags.rollout_plan import Figure

Column: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """`A` exposures in the order in which their answers ended. Read-only arrays.

    Arms are as assigned: an exposure whose sampler fell back stays with its arm.
    """

    user: npt.NDArray[np.int64]
    """[A] dense codes 0..U-1, in the order of the users' first exposures."""
    is_candidate: npt.NDArray[np.bool_]
    """[A]"""
    ended_s: Column
    """[A] seconds since the epoch."""
    figures: Mapping[Figure, Column]
    """[A] each; NaN where the figure is not known for that exposure."""

    def __len__(self) -> int:
        return len(self.user)
