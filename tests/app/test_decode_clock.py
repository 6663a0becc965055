"""Timestamps: strictly increasing, zero at the first frame, repaired by one rule."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.decoding.clock import FrameClock

Pts = st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62), st.integers(0, 50)), min_size=1)
TimeBases = st.sampled_from([Fraction(1, 30), Fraction(1, 90_000), Fraction(1), Fraction(0), None])


def times_of(pts: list[int | None], rate: Fraction | None = Fraction(10)) -> list[float]:
    clock = FrameClock(Fraction(1, 10), rate)
    return [clock.tick(value) for value in pts]


@given(pts=Pts, time_base=TimeBases, rate=st.sampled_from([None, Fraction(25), Fraction(10**9)]))
def test_times_strictly_increase_from_zero_whatever_the_pts(
    pts: list[int | None], time_base: Fraction | None, rate: Fraction | None
) -> None:
    clock = FrameClock(time_base, rate)
    returned = [clock.tick(value) for value in pts]
    times = clock.timestamps_s()
    assert times.tolist() == returned
    assert times[0] == 0.0
    assert (np.diff(times) > 0).all()
    assert np.isfinite(times).all()
    assert clock.duration_s >= times[-1]


@given(st.lists(st.integers(1, 10**6), min_size=1), st.integers(0, 10**9))
def test_advancing_pts_are_kept_exactly(gaps: list[int], first: int) -> None:
    clock = FrameClock(Fraction(1, 90_000), None)
    pts = [first, *(first + int(total) for total in np.cumsum(gaps))]
    times = [clock.tick(value) for value in pts]
    assert times == [(value - first) / 90_000 for value in pts]
    assert clock.num_repaired == 0
    assert clock.start_s == pytest.approx(first / 90_000)


def test_missing_pts_follow_the_header_rate() -> None:
    assert times_of([None, None, None], Fraction(20)) == pytest.approx([0, 0.05, 0.1])


def test_an_implausible_header_rate_counts_as_25_fps() -> None:
    assert times_of([None, None], Fraction(10**7)) == pytest.approx([0, 0.04])


def test_a_pts_that_goes_back_becomes_the_last_time_plus_the_median_interval() -> None:
    assert times_of([0, 2, 4, 3, 10]) == pytest.approx([0, 0.2, 0.4, 0.5, 1.0])


def test_shuffled_pts_do_not_drift_away_from_their_order() -> None:
    pts: list[int | None] = [n + (3, 1, -1, -3)[n % 4] for n in range(400)]
    assert times_of(pts)[-1] == pytest.approx(39.6, abs=0.7)


def test_a_first_frame_without_pts_leads_the_next_by_one_interval() -> None:
    clock = FrameClock(Fraction(1, 10), Fraction(10))
    assert [clock.tick(None), clock.tick(100), clock.tick(105)] == pytest.approx([0, 0.1, 0.6])
    assert clock.start_s == pytest.approx(9.9)


def test_a_pts_of_years_counts_as_missing() -> None:
    assert times_of([0, 1, 2**60]) == pytest.approx([0, 0.1, 0.2])
