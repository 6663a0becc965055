"""Exposures for tests of guards, written out by hand or dealt at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flags.outcomes import Outcomes
from flags.rollout_plan import Figure


@dataclass(frozen=True, slots=True)
class Exposure:
    user: str
    is_candidate: bool
    ended_s: float
    figures: Mapping[Figure, float] = field(default_factory=dict)
    known_s: Mapping[Figure, float] = field(default_factory=dict)


def outcomes_of(exposures: Sequence[Exposure]) -> Outcomes:
    """The columns of `exposures`, put into the order in which they ended."""
    ordered = sorted(exposures, key=lambda exposure: exposure.ended_s)
    codes = {user: code for code, user in enumerate(dict.fromkeys(one.user for one in ordered))}
    figures = {figure for exposure in ordered for figure in exposure.figures}
    known = {figure for exposure in ordered for figure in exposure.known_s}
    return Outcomes(
        user=np.array([codes[one.user] for one in ordered], dtype=np.int64),
        is_candidate=np.array([one.is_candidate for one in ordered], dtype=np.bool_),
        ended_s=np.array([one.ended_s for one in ordered], dtype=np.float64),
        figures={
            figure: np.array([one.figures.get(figure, np.nan) for one in ordered])
            for figure in figures
        },
        known_s={
            figure: np.array([one.known_s.get(figure, one.ended_s) for one in ordered])
            for figure in known
        },
    )


@dataclass(frozen=True, slots=True)
class Arm:
    """Users who ask once, one a second, of whom a share shows each figure as 1."""

    users: int
    shares: Mapping[Figure, float] = field(default_factory=dict)
    values: Mapping[Figure, float] = field(default_factory=dict)
    """Figures that are the same for everyone."""


def outcomes_of_arms(candidate: Arm, control: Arm, *, since_s: float = 0.0) -> Outcomes:
    """Both arms' users from `since_s` on, a thousand seconds at most, spread evenly."""
    return outcomes_of(
        [*_exposures_of(candidate, True, since_s), *_exposures_of(control, False, since_s)]
    )


def _exposures_of(arm: Arm, is_candidate: bool, since_s: float) -> list[Exposure]:
    return [
        Exposure(
            user=f"{is_candidate}-{since_s}-{place}",
            is_candidate=is_candidate,
            ended_s=since_s + 1000.0 * (place + 0.5) / arm.users,
            figures={
                **arm.values,
                **{
                    figure: float(int((place + 1) * share) > int(place * share))
                    for figure, share in arm.shares.items()
                },
            },
        )
        for place in range(arm.users)
    ]
