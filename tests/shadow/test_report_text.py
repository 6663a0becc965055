"""shadow/report_text.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shadow.report import build_report
from shadow.report_document import ReportScope, Unit
from shadow.report_text import bounds_text, clock_text, count_text, value_text
from tests.shadow.report_records import NOW_S, comparison, many, side

SCOPE = ReportScope(NOW_S - 10, NOW_S + 100_000)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.0, Unit.SHARE, "100 %"),
        (0.0, Unit.SHARE, "0 %"),
        (0.0041, Unit.SHARE, "0.41 %"),
        (0.70612, Unit.SHARE, "70.6 %"),
        (-0.0123, Unit.SHARE_DIFFERENCE, "−1.2 points"),
        (0.0301, Unit.COSINE_DIFFERENCE, "+0.030"),
        (-0.0001, Unit.COSINE_DIFFERENCE, "0.000"),
        (0.0039, Unit.SECONDS, "3.90 ms"),
        (2.4, Unit.SECONDS, "2.40 s"),
        (0.000158, Unit.SECONDS, "158 µs"),
        (0.9996, Unit.SECONDS, "1.00 s"),
        (0.0, Unit.SECONDS, "0 s"),
        (-0.0077, Unit.SECONDS_DIFFERENCE, "−7.70 ms"),
        (2.98, Unit.RATIO, "2.98 ×"),
        (1234.0, Unit.COUNT, "1,234"),
        (12.345, Unit.COUNT, "12.3"),
        (-2.0, Unit.COUNT_DIFFERENCE, "−2"),
    ],
)
def test_numbers_are_read_with_their_unit(value: float, unit: Unit, text: str) -> None:
    assert value_text(value, unit) == text


def test_bounds_name_a_common_unit_once() -> None:
    assert bounds_text(0.012, 0.019, Unit.SHARE) == "1.2 to 1.9 %"
    assert bounds_text(0.4, 1.2, Unit.SECONDS) == "400 ms to 1.20 s"
    assert bounds_text(None, None, Unit.SHARE) == "no bounds"


def test_positions_in_a_video_are_read_as_a_clock() -> None:
    assert clock_text(4.0) == "0:04"
    assert clock_text(3725.0) == "1:02:05"
    assert clock_text(59.96, with_tenths=True) == "1:00.0"


def test_counts_agree_with_their_noun() -> None:
    assert (count_text(1, "user"), count_text(1204, "user")) == ("1 user", "1,204 users")


def test_the_headline_says_what_is_clear_and_only_that() -> None:
    report = build_report(many(400), SCOPE)
    assert report.headline.startswith("aks shares ")
    assert "chooses more relevant and more varied ones" in report.headline
    assert "failed in 5 of 360 comparisons" in report.headline


def test_the_headline_of_a_pair_without_a_clear_difference_says_so() -> None:
    control = side("uniform", [0, 100])
    records = [comparison(n, control, replace(control, sampler_id="aks")) for n in range(30)]
    headline = build_report(records, SCOPE).headline
    assert headline == (
        "aks shares 100 % of its frames with uniform, chooses neither better nor worse ones, "
        "takes 1.00 × as long to select, and never failed."
    )
