"""The page of the shadow report: as text, and in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import cv2
import numpy as np
import pytest

from shadow.records import ComparisonRecord
from shadow.report import build_report
from shadow.report_document import ReportScope
from shadow.report_page import PageLimits, render_page
from tests.shadow.browser import browser_tab
from tests.shadow.report_records import NOW_S, comparison, many, side

SCOPE = ReportScope(NOW_S - 10, NOW_S + 100_000)
ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)> \"'>{{ 7 * 7 }}"
LOADED_PICTURES = "[...document.images].filter(i => i.complete && i.naturalWidth > 0).length"
# Boxes that do not scroll and whose content sticks out of the screen.
STICKS_OUT = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class DrawnPictures:
    """A thumbnail a frame, without a video; frame 13 has none."""

    def __init__(self) -> None:
        self.num_made = 0

    def thumbnail(self, video_id: str, frame_index: int) -> bytes | None:
        if frame_index == 13:
            return None
        self.num_made += 1
        pixels = np.full((54, 96, 3), frame_index % 256, dtype=np.uint8)
        return cv2.imencode(".jpg", pixels)[1].tobytes()


class ActiveParts(HTMLParser):
    """Tags and attributes that could run or load something."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.handlers: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        loading = {"src", "href", "srcset", "action", "data", "poster"}
        self.addresses += [value or "" for name, value in attrs if name in loading]


def page(records: list[ComparisonRecord], limits: PageLimits | None = None) -> str:
    return render_page(build_report(records, SCOPE), DrawnPictures(), limits)


def attacked() -> list[ComparisonRecord]:
    control = side("uniform", [13, 100], answer=ATTACK)
    shadow = side("<b>aks</b>", [50, 150], answer=ATTACK, sampler_version="</td>")
    return [comparison(1, control, shadow, question=ATTACK, llm_id=ATTACK, answer_id=ATTACK)]


def test_what_users_wrote_stays_text() -> None:
    html = page(attacked())
    parts = ActiveParts()
    parts.feed(html)

    assert (parts.scripts, parts.handlers) == (0, [])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "{{ 7 * 7 }}" in html  # not taken for a template either
    assert "<b>aks</b>" not in html


def test_the_page_names_no_address_outside_itself() -> None:
    html = page(many(60))
    parts = ActiveParts()
    parts.feed(html)

    assert parts.addresses
    assert all(address.startswith(("data:", "#")) for address in parts.addresses)
    assert re.findall(r"https?:|//[a-z]", re.sub(r'"data:[^"]*"', "", html)) == []
    assert re.findall(r"url\((?!#)", html) == []


def test_pictures_stop_at_the_pages_limits_and_frames_stay_on_the_axis() -> None:
    few = page(many(60), PageLimits(num_pictures=5))
    small = page(many(60), PageLimits(picture_bytes=2000))

    assert few.count("<img") == 5
    assert 0 < small.count("<img") < 5
    assert few.count('<i class="') == page(many(60)).count('<i class="')
    assert "no picture" in few


def test_a_frame_without_a_picture_says_so() -> None:
    html = page(attacked())
    assert html.count("<img") == 3
    assert html.count("no picture") == 1


def test_many_frames_are_thinned_out_to_pictures_but_all_stand_on_the_axis() -> None:
    control, shadow = side("uniform", list(range(0, 300, 5))), side("aks", list(range(1, 300, 5)))
    html = page([comparison(1, control, shadow)])
    assert html.count("<img") == 32
    assert html.count('<i class="') == 120
    assert "16 pictures shown, all frames on the axis" in html


def test_a_page_of_many_records_is_bounded() -> None:
    pictures = DrawnPictures()
    html = render_page(build_report(many(1000), SCOPE), pictures)
    assert len(html) < 1_000_000
    assert pictures.num_made <= PageLimits().num_pictures


def test_an_empty_page_says_how_to_get_comparisons() -> None:
    html = page([])
    assert "How to get comparisons" in html
    assert "video.sampler.shadow_rate" in html
    assert "framegate shadow report --since 7d" in html


def test_every_measure_that_has_values_is_plotted_with_its_name() -> None:
    html = page(many(60))
    measures = build_report(many(60), SCOPE).pairs[0].overall.measures
    for measure in measures:
        assert f'aria-label="Distribution of: {measure.label}"' in html


def test_a_question_that_was_compared_with_answers_shows_both() -> None:
    records = [
        replace(record, question="Who sits on the sofa?")
        for record in many(60)
        if record.answers_agree is not None
    ]
    html = page(records)
    assert "Two cats on a sofa." in html
    assert "A cat, and then a dog." in html


LONG = replace(attacked()[0], question=f"{'Why? ' * 300}\n{'x' * 500}")


@pytest.mark.parametrize(
    "records",
    [[], many(1), [LONG], many(1000)],
    ids=["nothing", "one record", "a long hostile question", "a thousand records"],
)
def test_a_browser_shows_the_page_without_a_complaint(
    tmp_path: Path, records: list[ComparisonRecord]
) -> None:
    html = page(records)
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    with browser_tab() as tab:
        tab.open(path.as_uri())
        assert tab.complaints == []
        assert {address for address in tab.requests if not address.startswith("data:")} == {
            path.as_uri()
        }
        assert tab.evaluate(LOADED_PICTURES) == html.count("<img")
        assert tab.evaluate("document.querySelectorAll('figure svg').length") == html.count(
            "<figure>"
        )
        for width in (1280, 390):
            tab.resize(width, 900)
            assert tab.evaluate(STICKS_OUT) == 0, width
