from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import find_peaks

from samplers.contract import FeaturesMissingError, InvalidOptionsError, Scene
from samplers.shot import (
    MOST_COMPARED_ROWS,
    ShotSampler,
    detected_start_rows,
    importances,
    prominent_peaks,
    shot_quotas,
    softmax,
)
from samplers.testing import InMemoryVideo, make_video

ROOM = np.full(5, 100)


def sampler(**options: Any) -> ShotSampler:
    return ShotSampler(replace(ShotSampler.Options(), **options), encoder="default")


def video_with_scores(scores: list[float]) -> InMemoryVideo:
    count = len(scores)
    return InMemoryVideo(
        video_id="scored",
        timestamps_s=np.arange(2 * count) / 2,
        candidates=np.arange(0, 2 * count, 2),
        embeddings=np.ones((count, 1), dtype=np.float32),
        fixed_scores=np.array(scores, dtype=np.float32),
    )


def test_quotas_follow_the_weights_by_largest_remainder() -> None:
    weights = np.array([50.0, 30.0, 20.0, 10.0, 10.0])
    assert shot_quotas(weights, 12, ROOM).tolist() == [5, 3, 2, 1, 1]


def test_every_shot_gets_a_frame_while_the_budget_lasts() -> None:
    weights = np.array([1000.0, 1.0, 1.0, 1.0, 0.0])
    assert shot_quotas(weights, 10, ROOM).tolist() == [6, 1, 1, 1, 1]
    assert shot_quotas(weights, 5, ROOM).tolist() == [1, 1, 1, 1, 1]


def test_more_shots_than_budget_keeps_the_heaviest() -> None:
    weights = np.array([3.0, 9.0, 1.0, 9.0, 3.0])
    assert shot_quotas(weights, 3, ROOM).tolist() == [1, 1, 0, 1, 0]


def test_no_shot_gets_more_frames_than_it_holds() -> None:
    weights = np.array([100.0, 1.0, 1.0])
    assert shot_quotas(weights, 9, np.array([3, 20, 20])).tolist() == [3, 3, 3]


def test_a_picture_change_starts_a_shot() -> None:
    pictures = np.repeat(np.eye(3, dtype=np.float32), [1, 6, 4], axis=0)
    assert detected_start_rows(pictures, 0.1).tolist() == [0, 1, 7]


def test_a_change_below_the_prominence_starts_none() -> None:
    pictures = np.repeat(np.eye(3, dtype=np.float32), [1, 6, 4], axis=0)
    assert detected_start_rows(pictures, 1.5).tolist() == [0]


@given(
    inner=st.lists(st.floats(0, 2, width=32, allow_subnormal=False), max_size=40, unique=True),
    prominence=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_prominent_peaks_agree_with_scipy(inner: list[float], prominence: float) -> None:
    heights = np.array([0.0, *inner, 0.0])
    expected, _ = find_peaks(heights, prominence=prominence)
    assert prominent_peaks(heights, prominence).tolist() == expected.tolist()


def test_a_flat_top_counts_once_at_its_first_row() -> None:
    assert prominent_peaks(np.array([0.0, 0.2, 0.9, 0.9, 0.9, 0.1, 0.0]), 0.5).tolist() == [2]


def test_detection_thins_very_long_videos() -> None:
    count = 2 * MOST_COMPARED_ROWS + 7
    pictures = np.repeat(np.eye(2, dtype=np.float32), [count // 2, count - count // 2], axis=0)
    (start,) = detected_start_rows(pictures, 0.1)[1:]
    assert abs(int(start) - count // 2) <= 3


def test_centres_of_shots_ignore_the_query() -> None:
    video = make_video(60, seed=2)
    shots = [Scene(0, video.num_frames // 2), Scene(video.num_frames // 2, video.num_frames)]
    centred = sampler(pick="centre")
    assert centred.select(video, "q", 2, shots) == centred.select(video, None, 2, shots)


def test_the_most_relevant_frame_of_every_stretch_is_taken() -> None:
    video = video_with_scores([0.1, 0.9, 0.2, 0.3, 0.8, 0.1, 0.2, 0.7])
    shots = [Scene(0, 8), Scene(8, 16)]
    assert sampler().select(video, "q", 2, shots) == video.candidates[[1, 4]].tolist()
    # Two frames a shot: each half of a shot gives its best.
    assert sampler().select(video, "q", 4, shots) == video.candidates[[1, 3, 4, 7]].tolist()


def test_importance_gives_the_relevant_shot_the_larger_share() -> None:
    scores = np.concatenate([np.full(30, 0.1), np.full(30, 0.9)]).astype(np.float32)
    calm, relevant = softmax(importances(scores, np.array([0, 30])))
    assert relevant > calm
    assert calm + relevant == pytest.approx(1.0)


def test_importance_decides_which_shots_stay_when_there_are_too_many() -> None:
    video = video_with_scores([0.1] * 6 + [0.9, 0.8] + [0.1] * 4)
    shots = [Scene(0, 12), Scene(12, 16), Scene(16, 24)]
    assert sampler(weight="importance").select(video, "q", 1, shots) == [12]
    assert sampler(weight="duration").select(video, "q", 1, shots) == [0]


def test_without_a_query_shares_follow_duration_and_picks_are_centres() -> None:
    video = make_video(60, seed=2)
    shots = video.scenes(5)
    blind = sampler(pick="centre").select(video, None, 9, shots)
    assert sampler(weight="importance").select(video, None, 9, shots) == blind


def test_without_shots_they_are_detected_on_the_embeddings() -> None:
    pictures = np.repeat(np.eye(2, dtype=np.float32), [4, 16], axis=0)
    video = replace(video_with_scores([0.0] * 20), embeddings=pictures, fixed_scores=None)
    detected = sampler(pick="centre").select(video, None, 2, None)
    given = sampler(pick="centre").select(video, None, 2, [Scene(0, 8), Scene(8, 40)])
    assert detected == given


def test_without_shots_and_features_the_whole_video_is_one_shot() -> None:
    video = make_video(60, seed=2, has_features=False)
    one_shot = sampler().select(video, None, 6, [Scene(0, video.num_frames)])
    assert sampler().select(video, None, 6, None) == one_shot


def test_a_query_without_scores_is_reported_as_missing_features() -> None:
    with pytest.raises(FeaturesMissingError):
        sampler().select(make_video(60, has_features=False), "q", 6, None)


@pytest.mark.parametrize("prominence", [-0.1, 2.1])
def test_a_prominence_out_of_range_is_refused(prominence: float) -> None:
    with pytest.raises(InvalidOptionsError, match="prominence"):
        ShotSampler.Options(prominence=prominence)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite_hide_no_other_boundary(bad: float) -> None:
    looks = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    looks[4] = bad
    assert detected_start_rows(looks, 0.1).tolist() == [0, 10, 20]
