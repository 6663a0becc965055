"""What is known of each figure beforehand."""

from __future__ import annotations

import pytest

from flags.figures import FIGURES, figure_text
from flags.rollout_plan import Figure


def test_every_figure_is_described() -> None:
    assert set(FIGURES) == set(Figure)


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        (Figure.SAMPLER_FAILURE, 0.0123, "1.23%"),
        (Figure.TOTAL_S, 0.3141, "0.314 s"),
        (Figure.VISION_TOKENS, 2113.4, "2,113"),
        (Figure.MODEL_CALLS, 1.5, "1.5"),
        (Figure.SHADOW_RELEVANCE, -0.02741, "-0.0274"),
    ],
)
def test_a_value_is_shown_in_its_unit(figure: Figure, value: float, text: str) -> None:
    assert figure_text(figure, value) == text
