"""Where the pictures of a comparison stand."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.compare import MAX_BUDGET, MAX_SAMPLERS
from app.compare_layout import (
    GAP,
    LABEL_HEIGHT,
    MAX_PICTURE_HEIGHT,
    MAX_PICTURE_WIDTH,
    Box,
    PlacedPick,
    TimeAxis,
    grouped,
    picture_place,
    place_picks,
    row_layout,
)

ROUNDING = 1e-6
SECONDS = st.floats(0, 3600, allow_nan=False)
TIMES = st.lists(SECONDS, min_size=1, max_size=128, unique=True).map(sorted)
ASPECTS = st.floats(0.1, 10.0)


def placed(times_s: list[float], aspect: float = 16 / 9) -> tuple[PlacedPick, ...]:
    return place_picks(times_s, TimeAxis(3600.0), picture_place(aspect, len(times_s)), top=100.0)


def with_label(box: Box) -> Box:
    return Box(box.left, box.top, box.width, box.height + LABEL_HEIGHT)


def do_overlap(first: Box, second: Box) -> bool:
    return (
        first.left < second.right - ROUNDING
        and second.left < first.right - ROUNDING
        and first.top < second.bottom - ROUNDING
        and second.top < first.bottom - ROUNDING
    )


@settings(deadline=None)
@given(TIMES, ASPECTS)
def test_no_picture_and_no_label_covers_another(times_s: list[float], aspect: float) -> None:
    boxes = [with_label(pick.box) for pick in placed(times_s, aspect)]
    assert not any(do_overlap(first, second) for first, second in combinations(boxes, 2))


@settings(deadline=None)
@given(TIMES, ASPECTS)
def test_every_picture_stands_inside_the_axis(times_s: list[float], aspect: float) -> None:
    axis = TimeAxis(3600.0)
    for pick in placed(times_s, aspect):
        assert pick.box.left >= axis.left - ROUNDING
        assert pick.box.right <= axis.left + axis.width + ROUNDING
        assert pick.box.top >= 100.0


@settings(deadline=None)
@given(TIMES)
def test_pictures_keep_the_order_of_time(times_s: list[float]) -> None:
    picks = placed(times_s)
    assert len(picks) == len(times_s)
    for earlier, later in pairwise(picks):
        is_below = later.box.left == earlier.box.left and later.box.top > earlier.box.top
        assert later.box.left > earlier.box.left or is_below


@settings(deadline=None)
@given(TIMES)
def test_a_tick_stands_at_its_true_time_and_no_two_lines_cross(times_s: list[float]) -> None:
    axis = TimeAxis(3600.0)
    picks = placed(times_s)
    assert [pick.tick_x for pick in picks] == [
        pytest.approx(axis.left + seconds / 3600.0 * axis.width) for seconds in times_s
    ]
    assert all(later.leader_x > earlier.leader_x for earlier, later in pairwise(picks))
    for pick in picks:
        assert pick.box.left <= pick.leader_x <= pick.box.right


@settings(deadline=None)
@given(TIMES, ASPECTS)
def test_pictures_are_as_large_as_fits_but_no_larger(times_s: list[float], aspect: float) -> None:
    place = picture_place(aspect, len(times_s))
    assert 0 < place.width <= MAX_PICTURE_WIDTH
    assert 0 < place.height <= MAX_PICTURE_HEIGHT
    assert place.num_columns * (place.width + GAP) <= TimeAxis(1.0).width


def test_a_picture_with_room_stands_right_below_its_tick() -> None:
    for pick in placed([600.0, 1800.0, 3000.0]):
        assert pick.leader_x == pytest.approx(pick.tick_x)


def test_pictures_of_one_moment_stand_side_by_side_around_it() -> None:
    picks = placed([1800.0, 1800.1, 1800.2])
    assert [pick.box.top for pick in picks] == [100.0] * 3
    assert picks[1].leader_x == pytest.approx(picks[1].tick_x, abs=1.0)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60).map(sorted), st.integers(1, 20))
def test_runs_hold_every_pick_once_and_are_no_longer_than_they_must(
    shares: list[float], num_columns: int
) -> None:
    runs = grouped(shares, num_columns)
    assert [k for run in runs for k in run] == list(range(len(shares)))
    assert len(runs) <= max(num_columns, 1)
    assert max(len(run) for run in runs) <= -(-len(shares) // num_columns)


def test_neighbours_in_time_share_a_column() -> None:
    runs = grouped([0.1, 0.11, 0.5, 0.51, 0.9, 0.91], 4)
    assert [list(run) for run in runs] in (
        [[0, 1], [2, 3], [4, 5]],
        [[0, 1], [2, 3], [4], [5]],
        [[0, 1], [2], [3], [4, 5]],
        [[0], [1], [2, 3], [4, 5]],
    )


@pytest.mark.parametrize("aspect", [0.1, 0.5, 1.0, 1.7, 3.0, 10.0])
def test_the_largest_row_is_bounded_in_height(aspect: float) -> None:
    times_s = [float(second) for second in range(MAX_BUDGET)]
    place = picture_place(aspect, MAX_BUDGET)
    row = row_layout(times_s, TimeAxis(3600.0), place, top=0.0, num_notes=1)
    assert MAX_SAMPLERS * row.bottom < 12_000


def test_a_row_without_picks_has_room_to_say_why() -> None:
    row = row_layout([], TimeAxis(10.0), picture_place(1.0, 4), top=50.0, num_notes=0)
    assert row.picks == ()
    assert row.bottom > row.strip.top > row.header.top == 50.0


def test_a_video_of_no_length_has_an_axis() -> None:
    assert TimeAxis(0.0).x(0.0) == TimeAxis(10.0).x(0.0)
    assert TimeAxis(10.0).x(99.0) == TimeAxis(10.0).x(10.0)
