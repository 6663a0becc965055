from __future__ import annotations

import numpy as np
import pytest

from samplers.contract import InvalidOptionsError
from samplers.fps import FpsSampler, rows_at_rate
from samplers.testing import InMemoryVideo, make_video


def sampler(fps: float) -> FpsSampler:
    return FpsSampler(FpsSampler.Options(fps=fps), encoder="default")


def video_of(num_seconds: int, candidates_per_second: int) -> InMemoryVideo:
    count = num_seconds * candidates_per_second
    return InMemoryVideo(
        video_id="regular",
        timestamps_s=np.arange(5 * count) / (5 * candidates_per_second),
        candidates=np.arange(0, 5 * count, 5),
        embeddings=None,
    )


@pytest.mark.parametrize(("fps", "expected"), [(1.0, 10), (2.0, 20), (0.5, 5), (0.1, 1)])
def test_fps_takes_one_frame_per_interval(fps: float, expected: int) -> None:
    video = video_of(10, 4)
    indices = sampler(fps).select(video, None, 1000, None)
    assert len(indices) == expected
    np.testing.assert_allclose(video.timestamps_s[indices], np.arange(expected) / fps)


def test_a_rate_above_the_candidates_takes_all_of_them() -> None:
    video = video_of(10, 4)
    assert sampler(1000).select(video, None, 1000, None) == video.candidates.tolist()


def test_the_budget_thins_evenly_and_does_not_cut_the_tail() -> None:
    video = video_of(100, 2)
    seconds = video.timestamps_s[sampler(1.0).select(video, None, 5, None)]
    np.testing.assert_allclose(seconds, [10, 30, 50, 70, 90])


def test_every_tick_takes_its_nearest_candidate_when_times_are_uneven() -> None:
    times_s = np.array([0.0, 0.4, 0.9, 1.2, 2.6, 3.1, 5.0])
    nearest = {int(np.argmin(np.abs(times_s - tick))) for tick in range(6)}
    assert rows_at_rate(times_s, 5.0, 1.0).tolist() == sorted(nearest)


def test_a_tick_between_two_candidates_takes_the_earlier_one() -> None:
    assert rows_at_rate(np.array([0.0, 0.5, 1.5]), 1.5, 1.0).tolist() == [0, 1]


def test_one_candidate_is_always_taken() -> None:
    assert len(sampler(0.001).select(make_video(1), None, 4, None)) == 1


@pytest.mark.parametrize("fps", [0.0, -1.0, 1001.0, float("nan")])
def test_a_rate_out_of_range_is_refused(fps: float) -> None:
    with pytest.raises(InvalidOptionsError, match="fps"):
        FpsSampler.Options(fps=fps)
