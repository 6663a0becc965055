"""The page on guards, checked against the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flags.figures import FIGURES, Unit
from flags.guard_text import guard_text, parse_guard
from flags.rollout_plan import Figure, Statistic

PAGE = (Path(__file__).parents[2] / "docs" / "guards.md").read_text(encoding="utf-8")
ROWS = {
    row[0]: row[1:]
    for row in re.findall(r"^\| `(\w+)` \| ([\w ]+) \| (\w+) \| ([\w` ]+) \|", PAGE, re.MULTILINE)
}
UNITS = {
    Unit.SHARE: "share",
    Unit.SECONDS: "seconds",
    Unit.COUNT: "a number",
    Unit.SCORE: "a number",
}


@pytest.mark.parametrize("figure", Figure)
def test_every_figure_is_on_the_page_as_it_is(figure: Figure) -> None:
    traits = FIGURES[figure]
    unit, better, statistics = ROWS[figure]
    assert unit == UNITS[traits.unit]
    assert better == ("less" if traits.is_less_better else "more")
    known = [*Statistic] if traits.has_quantiles else [Statistic.MEAN]
    assert re.findall(r"`(\w+)`", statistics) == known


@pytest.mark.parametrize("text", sorted(set(re.findall(r"`([\w:.]+[<>]=[^`]+)`", PAGE))))
def test_every_guard_on_the_page_is_one(text: str) -> None:
    assert parse_guard(guard_text(parse_guard(text))) == parse_guard(text)
