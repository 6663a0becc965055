from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.contract import FeaturesMissingError, FloatArray, InvalidOptionsError, TimeArray
from samplers.gift import GiftSampler, gift_rows, relevant_and_even_rows
from samplers.maxvol import MaxvolSampler
from samplers.selection import min_max_scaled, top_rows, uniform_rows
from samplers.testing import InMemoryVideo, make_video

EXACT_PICTURES = np.array(
    [*np.eye(4), *-np.eye(4), *product([-0.5, 0.5], repeat=4)], dtype=np.float32
)
"""Unit vectors whose products are exact in float32, so that distances tie often and exactly."""
EXACT_RELEVANCE = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


def rows_by_definition(
    relevance: TimeArray, embeddings: FloatArray, count: int, round_size: int
) -> list[int]:
    """The rule word for word, every distance anew in every round: O(rounds x C^2 x D)."""
    exact = embeddings.astype(np.float64)
    squared = ((exact[:, np.newaxis] - exact) ** 2).sum(axis=2).tolist()
    place = [(-relevance[row], row) for row in range(len(relevance))]
    size = max(round_size, -(-count // 16))
    left, chosen = list(range(len(relevance))), list[int]()
    while len(chosen) < count:

        def worth(row: int, left: list[int] = left) -> float:
            better = [other for other in left if place[other] < place[row]]
            return float(relevance[row]) * min((squared[row][o] for o in better), default=4.0)

        best = sorted(left, key=lambda row: (-worth(row), *place[row]))
        chosen += best[: min(size, count - len(chosen))]
        left = [row for row in left if row not in chosen]
    return sorted(chosen)


def video_of(scores: TimeArray, embeddings: FloatArray) -> InMemoryVideo:
    count = len(scores)
    return InMemoryVideo(
        video_id="scored",
        timestamps_s=np.arange(3 * count) / 10,
        candidates=np.arange(1, 3 * count, 3),
        embeddings=embeddings,
        fixed_scores=scores.astype(np.float32),
    )


def sampler(**options: Any) -> GiftSampler:
    return GiftSampler(replace(GiftSampler.Options(), **options), encoder="default")


@settings(deadline=None)
@given(data=st.data(), round_size=st.integers(1, 12))
def test_rows_equal_the_definition_also_where_worths_tie(
    data: st.DataObject, round_size: int
) -> None:
    relevance = np.array(data.draw(st.lists(EXACT_RELEVANCE, min_size=2, max_size=30)))
    pictures = data.draw(
        st.lists(st.integers(0, 23), min_size=len(relevance), max_size=len(relevance))
    )
    count = data.draw(st.integers(1, len(relevance)))
    embeddings = EXACT_PICTURES[pictures]
    rows = gift_rows(relevance, embeddings, count, round_size)
    assert rows.tolist() == rows_by_definition(relevance, embeddings, count, round_size)


@pytest.mark.parametrize(("seed", "count"), [(1, 5), (2, 9), (3, 10), (4, 64), (5, 200)])
def test_rows_of_a_long_video_equal_the_definition(seed: int, count: int) -> None:
    # More rows than one block, and a budget that needs larger rounds.
    video = make_video(300, dimension=24, seed=seed)
    relevance = min_max_scaled(video.scores("default", "q"))
    embeddings = video.image_embeddings("default")
    rows = gift_rows(relevance, embeddings, count)
    assert rows.tolist() == rows_by_definition(relevance, embeddings, count, 9)


def test_rounding_does_not_rank_equal_pictures() -> None:
    rng = np.random.default_rng(6)
    pictures = rng.standard_normal((3, 300))
    pictures /= np.linalg.norm(pictures, axis=1, keepdims=True)
    embeddings = np.repeat(pictures.astype(np.float32), 20, axis=0)
    relevance = min_max_scaled(rng.random(60))
    rows = gift_rows(relevance, embeddings, 9)
    assert rows.tolist() == rows_by_definition(relevance, embeddings, 9, 9)


def test_the_sampler_compares_all_candidates_where_it_may() -> None:
    video = make_video(600, dimension=24, seed=8)
    scores = video.scores("default", "q")
    rows = gift_rows(min_max_scaled(scores), video.image_embeddings("default"), 20)
    expected = video.candidates[rows].tolist()
    assert sampler(most_rows=20_000).select(video, "q", 20, None) == expected


def test_a_frame_that_resembles_a_better_one_is_passed_over() -> None:
    scores = np.array([0.1, 0.9, 1.0, 0.95, 0.2, 0.5])
    video = video_of(scores, EXACT_PICTURES[[0, 1, 1, 1, 2, 3]])
    assert sampler().select(video, "q", 2, None) == video.candidates[[2, 5]].tolist()


def test_with_more_budget_the_surroundings_of_the_first_frames_follow() -> None:
    scores = np.array([0.1, 0.9, 1.0, 0.95, 0.2, 0.5])
    video = video_of(scores, EXACT_PICTURES[[0, 1, 1, 1, 2, 3]])
    selected = sampler(round_size=2).select(video, "q", 4, None)
    # Without rows 2 and 5, row 3 is the best one left and row 4 is far from it.
    assert selected == video.candidates[[2, 3, 4, 5]].tolist()


def test_compared_rows_are_one_half_even_and_one_half_relevant() -> None:
    scores = np.random.default_rng(3).random(5000)
    rows = relevant_and_even_rows(scores, 1000)
    even = uniform_rows(5000, 500)
    assert len(np.unique(rows)) == 1000
    assert np.isin(even, rows).all()
    others = np.setdiff1d(np.arange(5000), even)
    assert np.isin(others[top_rows(scores[others], 500)], rows).all()
    assert relevant_and_even_rows(scores, 5000).tolist() == list(range(5000))


def test_comparing_a_part_of_the_candidates_hardly_changes_the_frames() -> None:
    video = make_video(3000, dimension=48, seed=9)
    every = sampler(most_rows=20_000).select(video, "q", 32, None)
    part = sampler().select(video, "q", 32, None)
    assert len(set(every) & set(part)) >= 30


def test_the_note_says_how_many_candidates_were_compared() -> None:
    video = make_video(300, seed=10)
    noted = sampler(most_rows=100).select_with_note(video, "q", 5, None)
    assert noted.note == "100 of 300 candidates compared"
    assert noted.indices == sampler(most_rows=100).select(video, "q", 5, None)


def test_a_budget_beyond_the_compared_rows_is_filled_by_time() -> None:
    video = make_video(400, seed=10)
    selected = sampler(most_rows=64).select(video, "q", 300, None)
    assert len(selected) == 300
    scores = video.scores("default", "q")
    assert set(video.candidates[relevant_and_even_rows(scores, 64)].tolist()) <= set(selected)


@pytest.mark.parametrize("kind", ["constant", "nan", "no query"])
def test_the_fallback_is_maxvol(kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    maxvol = MaxvolSampler(MaxvolSampler.Options(), encoder="default")
    assert sampler().select(video, query, 7, None) == maxvol.select(video, None, 7, None)
    note = sampler().select_with_note(video, query, 7, None).note
    assert note == "no usable scores: maxvol"


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_rows_without_a_usable_embedding_do_no_harm(bad: float) -> None:
    embeddings = np.array(make_video(80, seed=2).embeddings)
    embeddings[10:50] = bad
    scores = np.random.default_rng(1).random(80)
    video = video_of(scores, embeddings)
    selected = sampler().select(video, "q", 12, None)
    assert len(selected) == 12
    # All of them are one picture, of which one is irreplaceable at a time.
    assert sum(10 <= index // 3 < 50 for index in selected) <= 2


def test_nothing_of_the_square_of_the_candidates_is_allocated() -> None:
    video = make_video(6000, dimension=8, seed=11)
    relevance = min_max_scaled(video.scores("default", "q"))
    embeddings = video.image_embeddings("default")
    tracemalloc.start()
    try:
        gift_rows(relevance, embeddings, 32)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 6000 * 6000


def test_missing_features_are_reported() -> None:
    with pytest.raises(FeaturesMissingError):
        sampler().select(make_video(40, has_features=False), None, 4, None)


@pytest.mark.parametrize(
    "options", [{"round_size": 0}, {"round_size": 513}, {"most_rows": 63}, {"most_rows": 20_001}]
)
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidOptionsError, match=next(iter(options))):
        GiftSampler.Options(**options)
