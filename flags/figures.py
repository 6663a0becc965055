"""What is known of each figure beforehand: its range, its unit, which way is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from flags.rollout_plan import Figure


class Unit(StrEnum):
    SHARE = "share"
    """0..1, shown in percent."""
    SECONDS = "seconds"
    COUNT = "count"
    SCORE = "score"


@dataclass(frozen=True, slots=True)
class FigureTraits:
    unit: Unit
    low: float = 0.0
    """The least value that an exposure can have."""
    high: float | None = 1.0
    """The greatest; None where there is none, and values are clipped instead."""
    is_less_better: bool = True
    is_late: bool = False
    """Known for some exposures only, and some time after the answer."""

    @property
    def has_quantiles(self) -> bool:
        return self.high is None


FIGURES: Final[Mapping[Figure, FigureTraits]] = MappingProxyType(
    {
        Figure.SAMPLER_FAILURE: FigureTraits(Unit.SHARE),
        Figure.DEPENDENCY_FAILURE: FigureTraits(Unit.SHARE),
        Figure.FALLBACK: FigureTraits(Unit.SHARE),
        Figure.ANSWER_ERROR: FigureTraits(Unit.SHARE),
        Figure.SELECTION_S: FigureTraits(Unit.SECONDS, high=None),
        Figure.TOTAL_S: FigureTraits(Unit.SECONDS, high=None),
        Figure.VISION_TOKENS: FigureTraits(Unit.COUNT, high=None),
        Figure.MODEL_CALLS: FigureTraits(Unit.COUNT, high=None),
        Figure.ENCODER_DEVICE_S: FigureTraits(Unit.SECONDS, high=None),
        Figure.SHADOW_RELEVANCE: FigureTraits(
            Unit.SCORE, low=-1.0, is_less_better=False, is_late=True
        ),
        Figure.ANSWER_AGREEMENT: FigureTraits(Unit.SHARE, is_less_better=False, is_late=True),
        Figure.FEEDBACK: FigureTraits(Unit.SHARE, is_less_better=False, is_late=True),
        Figure.OFFLINE_SCORE: FigureTraits(Unit.SCORE, is_less_better=False),
    }
)


def figure_text(figure: Figure, value: float) -> str:
    """`value` as an operator reads it: `1.2%`, `0.31 s`, `2,113`, `0.274`."""
    unit = FIGURES[figure].unit
    if unit is Unit.SHARE:
        return f"{100 * value:.3g}%"
    if unit is Unit.SECONDS:
        return f"{value:.3g} s"
    return f"{value:,.0f}" if unit is Unit.COUNT and value >= 100 else f"{value:.3g}"
