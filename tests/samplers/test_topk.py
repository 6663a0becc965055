from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.contract import InvalidOptionsError, TimeArray
from samplers.selection import top_rows
from samplers.testing import InMemoryVideo, make_video
from samplers.topk import TopkSampler, least_gap_s
from samplers.uniform import UniformSampler


def scored_video(scores: TimeArray, seconds_each: float = 1.0) -> InMemoryVideo:
    count = len(scores)
    return InMemoryVideo(
        video_id="scored",
        timestamps_s=np.arange(3 * count) * seconds_each / 3,
        candidates=np.arange(1, 3 * count, 3),
        embeddings=np.ones((count, 1), dtype=np.float32),
        fixed_scores=scores.astype(np.float32),
    )


def sampler(**options: Any) -> TopkSampler:
    return TopkSampler(replace(TopkSampler.Options(), **options), encoder="default")


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    budget=st.integers(1, 40),
    gap_share=st.floats(0, 1),
    max_gap_s=st.floats(0, 50),
)
def test_no_two_frames_are_closer_than_the_gap_as_long_as_frames_fit(
    seed: int, budget: int, gap_share: float, max_gap_s: float
) -> None:
    video = scored_video(np.random.default_rng(seed).random(200))
    gap_s = min(max_gap_s, gap_share * 199 / budget)
    selected = sampler(gap_share=gap_share, max_gap_s=max_gap_s).select(video, "q", budget, None)
    # However they fall, at most this many picks leave no room for another.
    if budget * 2 * np.ceil(gap_s) <= 200:
        assert np.diff(video.timestamps_s[selected]).min(initial=np.inf) >= gap_s - 1e-9


def plain_rows(scores: TimeArray, gap_rows: int, count: int) -> set[int]:
    """The rule on an even grid, counted in whole rows, one after the other; not filled."""
    picks: list[int] = []
    for row in sorted(range(len(scores)), key=lambda row: (-scores[row], row)):
        if len(picks) < count and all(abs(row - one) >= gap_rows for one in picks):
            picks.append(row)
    return set(picks)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    gap_rows=st.integers(1, 6),
    fps=st.sampled_from([Fraction(text) for text in ("1", "3", "10", "29.97", "30000/1001", "7")]),
    gap_share=st.sampled_from([Fraction(text) for text in ("0.1", "0.2", "0.5", "1")]),
    count=st.integers(2, 12),
)
def test_on_an_even_grid_rounding_decides_nothing(
    seed: int, gap_rows: int, fps: Fraction, gap_share: Fraction, count: int
) -> None:
    num_rows = int(gap_rows * count / gap_share) + 1
    scores = np.random.default_rng(seed).permutation(num_rows) / num_rows
    times_s = np.array([float(row / fps) for row in range(num_rows)])
    video = replace(
        scored_video(scores), timestamps_s=100 + times_s, candidates=np.arange(num_rows)
    )
    chosen = sampler(gap_share=float(gap_share), max_gap_s=1e6).select(video, "q", count, None)
    assert plain_rows(scores, gap_rows, count) <= set(chosen)


@pytest.mark.parametrize("options", [{"gap_share": 0.0}, {"max_gap_s": 0.0}])
def test_no_gap_is_plain_top_k(options: dict[str, float]) -> None:
    scores = np.random.default_rng(1).random(300)
    video = scored_video(scores)
    expected = video.candidates[top_rows(scores, 20)].tolist()
    assert sampler(**options).select(video, "q", 20, None) == expected


def test_a_second_moment_is_seen_beside_a_long_better_one() -> None:
    times_s = np.arange(600.0)
    scores = np.exp(-(((times_s - 200) / 40) ** 2)) + 0.8 * np.exp(-(((times_s - 480) / 4) ** 2))
    video = scored_video(scores)

    def rows(**options: float) -> TimeArray:
        return np.array(sampler(**options).select(video, "q", 8, None)) // 3

    assert rows(gap_share=0.0).max() < 240
    assert 480 in rows(max_gap_s=60.0)


def test_the_gap_follows_duration_and_budget_up_to_the_limit() -> None:
    hour = np.arange(3600, dtype=np.float64)
    clip = hour[:60] / 2
    assert least_gap_s(hour, 64, 0.25, 4.0) == 4.0
    assert least_gap_s(hour, 3600, 0.25, 4.0) == pytest.approx(0.25, rel=1e-3)
    assert least_gap_s(clip, 8, 0.25, 4.0) == pytest.approx(29.5 / 32)


def test_the_note_says_how_far_apart_the_frames_are() -> None:
    video = scored_video(np.random.default_rng(2).random(300))
    noted = sampler().select_with_note(video, "q", 10, None)
    assert noted.note == "10 frames at least 4 s apart"
    assert noted.indices == sampler().select(video, "q", 10, None)


def test_what_suppression_leaves_open_is_filled_furthest_in_time() -> None:
    scores = np.zeros(21)
    scores[[9, 10, 11]] = [0.5, 0.9, 0.6]
    video = scored_video(scores)
    # A gap of ten seconds leaves room for rows 0, 10 and 20 only; then the middles between them.
    selected = sampler(gap_share=1.0, max_gap_s=10.0).select(video, "q", 2, None)
    assert selected == video.candidates[[0, 10]].tolist()
    everything = sampler(gap_share=1.0, max_gap_s=10.0).select(video, "q", 20, None)
    assert len(everything) == 20


@pytest.mark.parametrize("kind", ["constant", "nan", "no query"])
def test_the_fallback_is_uniform(kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    uniform = UniformSampler(UniformSampler.Options(), encoder="default")
    assert sampler().select(video, query, 7, None) == uniform.select(video, None, 7, None)
    note = sampler().select_with_note(video, query, 7, None).note
    assert note == "no usable scores: uniform"


@pytest.mark.parametrize(
    "options", [{"gap_share": 1.1}, {"gap_share": -0.1}, {"max_gap_s": -1.0}, {"max_gap_s": np.nan}]
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidOptionsError, match=next(iter(options))):
        TopkSampler.Options(**options)
