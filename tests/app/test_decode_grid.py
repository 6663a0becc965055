"""The streaming grid equals its definition, whatever the timestamps and the policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.decoding.grid import CandidateGrid, GridPolicy
from samplers.contract import TimeArray

Intervals = st.lists(
    st.one_of(
        st.sampled_from([0.125, 1 / 30, 1 / 24, 0.25, 0.5, 1.0, 3.75]),
        st.floats(min_value=0.001, max_value=20),
    ),
    max_size=80,
)
Policies = st.builds(
    GridPolicy,
    fps_max=st.sampled_from([8.0, 4.0, 6.0, 5.0, 1.0]),
    fps_min=st.sampled_from([1.0, 0.5, 2.0]),
    target=st.integers(min_value=1, max_value=40),
)


def defined_candidates(timestamps_s: TimeArray, fps: float) -> list[int]:
    """Candidates by their definition: for k = 0, 1, … while k/fps <= the last timestamp."""
    shown: list[int] = []
    k = 0
    while k / fps <= timestamps_s[-1]:
        shown.append(max(i for i, time_s in enumerate(timestamps_s) if time_s <= k / fps))
        k += 1
    return sorted(set(shown))


def defined_grid(timestamps_s: TimeArray, policy: GridPolicy) -> tuple[float, list[int]]:
    fps = policy.fps_max
    candidates = defined_candidates(timestamps_s, fps)
    while len(candidates) > policy.target and fps / 2 >= policy.fps_min:
        fps /= 2
        candidates = defined_candidates(timestamps_s, fps)
    return fps, candidates


def streamed_grid(
    timestamps_s: TimeArray, policy: GridPolicy
) -> tuple[float, list[int], list[int]]:
    """The grid fed frame by frame, and the pictures that a pack beside it would hold."""
    grid = CandidateGrid(policy)
    pictures: list[int] = []
    last = len(timestamps_s) - 1
    for index, time_s in enumerate(timestamps_s):
        if index == last:
            is_admitted = grid.admit_last(index, float(time_s))
        else:
            is_admitted = grid.admit(index, float(time_s), float(timestamps_s[index + 1]))
        if is_admitted:
            pictures.append(index)
            while (rows := grid.halve_when_full()) is not None:
                pictures = [pictures[row] for row in rows]
    return grid.fps, grid.candidates().tolist(), pictures


@given(intervals=Intervals, policy=Policies)
def test_streamed_candidates_equal_the_definition_from_all_timestamps(
    intervals: list[float], policy: GridPolicy
) -> None:
    timestamps_s = np.concatenate([[0.0], np.cumsum(intervals)])
    fps, candidates, pictures = streamed_grid(timestamps_s, policy)
    assert (fps, candidates) == defined_grid(timestamps_s, policy)
    assert pictures == candidates


@pytest.mark.parametrize(
    ("seconds", "fps", "num_candidates"), [(5, 8.0, 40), (60, 2.0, 120), (3600, 1.0, 3600)]
)
def test_policy_gives_the_documented_numbers(seconds: int, fps: float, num_candidates: int) -> None:
    timestamps_s = np.arange(seconds * 8 + 1)[:-1] / 8
    policy = GridPolicy(fps_max=8, fps_min=1, target=128)
    found_fps, candidates, _ = streamed_grid(timestamps_s, policy)
    assert found_fps == fps
    assert len(candidates) == num_candidates


def test_a_gap_of_years_costs_no_loop_over_its_seconds() -> None:
    timestamps_s = np.array([0.0, 0.5, 9e7])
    policy = GridPolicy(fps_max=8, fps_min=1, target=128)
    assert streamed_grid(timestamps_s, policy)[1] == [0, 1, 2]
