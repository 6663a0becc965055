"""Texts in the picture of a comparison."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.compare_text import (
    clock_text,
    readable,
    shortened,
    time_text,
    wrapped,
)


@pytest.mark.parametrize(
    ("seconds", "duration_s", "text"),
    [
        (7.432, 10.0, "7.43 s"),
        (727.44, 1000.0, "12:07.4"),
        (59.96, 1000.0, "1:00.0"),
        (3727.4, 7200.0, "1:02:07"),
        (0.0, 7200.0, "0:00:00"),
    ],
)
def test_times_are_as_fine_as_the_video_is_short(
    seconds: float, duration_s: float, text: str
) -> None:
    assert time_text(seconds, duration_s) == text


def test_an_axis_has_whole_seconds() -> None:
    assert [clock_text(90.0, 100.0), clock_text(90.0, 3600.0)] == ["1:30", "0:01:30"]


@given(st.text(max_size=300), st.integers(2, 40), st.integers(1, 4))
def test_lines_are_bounded_in_number_and_length(
    text: str, max_columns: int, max_lines: int
) -> None:
    lines = wrapped(readable(text), max_columns, max_lines)
    assert 1 <= len(lines) <= max_lines
    assert all(len(line) <= max_columns for line in lines)


@given(st.text(st.sampled_from("ab "), max_size=60))
def test_wrapping_loses_no_word_that_has_room(text: str) -> None:
    lines = wrapped(text, 80, 3)
    assert " ".join(lines).split() == text.split()


def test_wide_signs_count_twice_and_long_words_are_broken() -> None:
    assert wrapped("自転車自転車", 6, 3) == ["自転車", "自転車"]
    assert wrapped("abcdefgh", 3, 3) == ["abc", "def", "gh"]
    assert wrapped("one two three four", 7, 2) == ["one two", "three…"]
    assert shortened("one two", 4) == "one…"


@given(st.text())
def test_what_is_readable_is_one_line_of_signs(text: str) -> None:
    shown = readable(text)
    assert shown == " ".join(shown.split())
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
