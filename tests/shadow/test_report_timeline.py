"""shadow/report_timeline.py."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.report_timeline import (
    MAX_LABELS,
    MAX_PICTURES,
    axis_label_times,
    evenly_chosen,
    place_pictures,
)

Times = st.lists(st.floats(0, 1), max_size=MAX_PICTURES).map(sorted)


@settings(deadline=None)
@given(times=Times)
def test_pictures_neither_overlap_nor_leave_the_axis(times: list[float]) -> None:
    placed = place_pictures(times)
    gaps = [right - left for left, right in zip(placed.lefts, placed.lefts[1:], strict=False)]
    assert len(placed.lefts) == len(times)
    assert all(gap >= placed.width - 1e-9 for gap in gaps)
    assert all(-1e-9 <= left <= 1 - placed.width + 1e-9 for left in placed.lefts)


def test_a_picture_with_room_stands_centred_on_its_time() -> None:
    placed = place_pictures([0.2, 0.5, 0.8])
    centres = [left + placed.width / 2 for left in placed.lefts]
    assert centres == pytest.approx([0.2, 0.5, 0.8])


def test_pictures_of_one_moment_move_aside_to_both_sides() -> None:
    placed = place_pictures([0.5, 0.5])
    left, right = (left + placed.width / 2 for left in placed.lefts)
    assert 0.5 - left == pytest.approx(right - 0.5)


@pytest.mark.parametrize("num_all", [0, 1, 15, 16, 17, 64, 3600])
def test_the_chosen_frames_are_few_distinct_and_hold_both_ends(num_all: int) -> None:
    chosen = evenly_chosen(num_all, MAX_PICTURES)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(num_all, MAX_PICTURES)
    assert not chosen or (chosen[0], chosen[-1]) == (0, num_all - 1)


@settings(deadline=None)
@given(video_seconds=st.floats(0.001, 200_000))
def test_labels_are_few_and_within_the_video(video_seconds: float) -> None:
    times = axis_label_times(video_seconds)
    assert times[0] == 0
    assert times[-1] <= video_seconds
    assert len(times) <= MAX_LABELS


def test_labels_stand_at_round_times() -> None:
    assert axis_label_times(30.0) == [0, 5, 10, 15, 20, 25, 30]
    assert axis_label_times(3600.0) == [0, 600, 1200, 1800, 2400, 3000, 3600]
