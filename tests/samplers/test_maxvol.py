from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samplers.contract import FeaturesMissingError, FloatArray, InvalidOptionsError, TimeArray
from samplers.maxvol import (
    TOLERANCE,
    MaxvolSampler,
    left_singular_vectors,
    maxvol_rows,
    rectangular_maxvol,
    square_maxvol,
)
from samplers.selection import uniform_rows
from samplers.testing import InMemoryVideo, make_video
from samplers.uniform import UniformSampler

SEEDS = st.integers(0, 2**32)


def matrix(seed: int, num_rows: int, rank: int) -> TimeArray:
    """Orthonormal columns; rows of very different length."""
    rng = np.random.default_rng(seed)
    uneven = rng.standard_normal((num_rows, rank)) * rng.exponential(size=(num_rows, 1))
    return np.linalg.qr(uneven)[0]


def volume(rows: TimeArray) -> float:
    return float(np.sqrt(max(np.linalg.det(rows.T @ rows), 0.0)))


def unit(rows: TimeArray) -> FloatArray:
    normalised: TimeArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normalised.astype(np.float32)


def as_stored(embeddings: FloatArray) -> FloatArray:
    """What the feature cache gives back: half precision on disk."""
    return embeddings.astype(np.float16).astype(np.float32)


def slides(num_slides: int, frames_each: int, dimension: int = 64) -> FloatArray:
    pictures = unit(np.random.default_rng(5).standard_normal((num_slides, dimension)))
    return np.repeat(pictures, frames_each, axis=0)


def embedded_video(embeddings: FloatArray) -> InMemoryVideo:
    count = len(embeddings)
    return InMemoryVideo(
        video_id="embedded",
        timestamps_s=np.arange(3 * count) / 10,
        candidates=np.arange(1, 3 * count, 3),
        embeddings=embeddings,
    )


def sampler(**options: Any) -> MaxvolSampler:
    return MaxvolSampler(replace(MaxvolSampler.Options(), **options), encoder="default")


@given(seed=SEEDS, rank=st.integers(1, 4), extra=st.integers(0, 8))
def test_no_swap_raises_the_volume_by_more_than_the_tolerance(
    seed: int, rank: int, extra: int
) -> None:
    vectors = matrix(seed, rank + extra, rank)
    rows = square_maxvol(vectors)
    reached = volume(vectors[rows])
    for column in range(rank):
        for row in range(rank + extra):
            swapped = rows.copy()
            swapped[column] = row
            assert volume(vectors[swapped]) <= TOLERANCE * reached * (1 + 1e-9) + 1e-12


@given(seed=SEEDS, rank=st.integers(1, 4), extra=st.integers(0, 8))
def test_the_volume_comes_near_the_greatest_of_all(seed: int, rank: int, extra: int) -> None:
    vectors = matrix(seed, rank + extra, rank)
    greatest = max(volume(vectors[list(rows)]) for rows in combinations(range(rank + extra), rank))
    # Hadamard's bound on the coefficients of a matrix that no swap improves.
    least = greatest / (TOLERANCE * np.sqrt(rank)) ** rank
    assert volume(vectors[square_maxvol(vectors)]) >= least * (1 - 1e-9)


@given(seed=SEEDS, rank=st.integers(1, 4), extra=st.integers(1, 12), added=st.integers(1, 6))
def test_every_further_row_raises_the_volume_as_much_as_one_can(
    seed: int, rank: int, extra: int, added: int
) -> None:
    vectors = matrix(seed, rank + extra, rank)
    rows = rectangular_maxvol(vectors, square_maxvol(vectors), rank + added)
    for size in range(rank, len(rows)):
        best = max(
            volume(vectors[[*rows[:size], row]])
            for row in range(rank + extra)
            if row not in rows[:size]
        )
        assert volume(vectors[rows[: size + 1]]) == pytest.approx(best, rel=1e-6)


@given(seed=SEEDS, rank=st.integers(1, 4), extra=st.integers(1, 30))
def test_rows_are_added_until_all_others_are_represented(seed: int, rank: int, extra: int) -> None:
    vectors = matrix(seed, rank + extra, rank)
    rows = rectangular_maxvol(vectors, square_maxvol(vectors), rank + extra)
    coefficients = vectors @ np.linalg.pinv(vectors[rows])
    others = np.delete(np.linalg.norm(coefficients, axis=1), rows)
    assert others.max(initial=0.0) <= TOLERANCE * (1 + 1e-6)


def test_few_dimensions_give_the_exact_singular_vectors() -> None:
    embeddings = unit(np.random.default_rng(1).standard_normal((50, 12)))
    exact = np.linalg.svd(embeddings.astype(np.float64), full_matrices=False)[0][:, :4]
    found = left_singular_vectors(embeddings, 4)
    np.testing.assert_allclose(np.abs(np.sum(exact * found, axis=0)), 1.0, atol=1e-5)
    np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-5)


def test_many_dimensions_give_the_singular_vectors_that_stand_out() -> None:
    rng = np.random.default_rng(2)
    scenes = rng.standard_normal((6, 300))[np.arange(400) * 6 // 400]
    embeddings = unit(scenes + 0.1 * rng.standard_normal((400, 300)))
    exact = np.linalg.svd(embeddings.astype(np.float64), full_matrices=False)[0][:, :6]
    found = left_singular_vectors(embeddings, 6)
    assert np.linalg.norm(exact.T @ found) ** 2 == pytest.approx(6, abs=1e-3)


def test_noise_of_half_precision_is_no_direction() -> None:
    embeddings = as_stored(slides(3, 200, 512))
    assert left_singular_vectors(embeddings, 20).shape == (600, 3)


@pytest.mark.parametrize("count", [7, 12, 40])
def test_every_slide_is_shown(count: int) -> None:
    rows = maxvol_rows(as_stored(slides(7, 60)), count)
    assert (np.unique(rows // 60) == np.arange(7)).all()


def test_what_the_picture_cannot_tell_apart_is_spread_over_time() -> None:
    video = embedded_video(slides(2, 30))
    noted = sampler().select_with_note(video, None, 12, None)
    assert np.diff(noted.indices).max() <= 24
    assert noted.note == "2 frames represent all others, 10 are spread over time"
    assert sampler().select_with_note(video, None, 2, None).note is None


def test_short_events_are_found_where_even_spacing_misses_them() -> None:
    rng = np.random.default_rng(3)
    pictures = np.repeat(rng.standard_normal((10, 256)), 200, axis=0)
    pictures += 0.3 * rng.standard_normal(pictures.shape)
    events = np.arange(105, 2000, 190)
    for start in events:
        pictures[start : start + 3] = rng.standard_normal(256)
    rows = maxvol_rows(as_stored(unit(pictures)), 32)
    assert {int(start) for start in events if ((rows >= start) & (rows < start + 3)).any()} == {
        int(start) for start in events
    }
    even = uniform_rows(2000, 32)
    assert not any(((even >= start) & (even < start + 3)).any() for start in events)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, -np.inf])
def test_rows_without_a_usable_embedding_are_not_chosen(bad: float) -> None:
    embeddings = np.array(make_video(80, seed=2).embeddings)
    embeddings[10:50] = bad
    rows = maxvol_rows(embeddings, 12)
    assert len(rows) == 12
    assert not ((rows >= 10) & (rows < 50)).any()


@pytest.mark.parametrize("value", [0.0, 0.25, np.nan])
@pytest.mark.parametrize("budget", [1, 7])
def test_embeddings_that_tell_nothing_apart_give_uniform(value: float, budget: int) -> None:
    video = embedded_video(np.full((90, 16), value, dtype=np.float32))
    uniform = UniformSampler(UniformSampler.Options(), encoder="default")
    expected = uniform.select(video, None, budget, None)
    assert sampler().select(video, "q", budget, None) == expected


def test_question_and_shots_change_nothing() -> None:
    video = make_video(120, seed=6)
    alone = sampler().select(video, None, 9, None)
    assert sampler().select(video, "q", 9, video.scenes(5)) == alone


def test_rank_eight_is_the_published_setting_and_fills_the_budget_too() -> None:
    video = make_video(200, seed=7)
    assert len(sampler(rank=8).select(video, None, 50, None)) == 50
    assert sampler(rank=8).select(video, None, 50, None) != sampler().select(video, None, 50, None)


def test_long_videos_are_thinned_evenly() -> None:
    embeddings = as_stored(slides(8, 100))
    rows = maxvol_rows(embeddings, 8, most_rows=400)
    assert (np.unique(rows // 100) == np.arange(8)).all()
    assert set(rows) <= set(uniform_rows(800, 400))


@given(
    seed=SEEDS,
    num_rows=st.integers(0, 30),
    dimension=st.integers(1, 6),
    count=st.integers(-1, 33),
    rank=st.integers(1, 9),
)
def test_any_embeddings_give_unique_rows_and_no_more_than_asked(
    seed: int, num_rows: int, dimension: int, count: int, rank: int
) -> None:
    rng = np.random.default_rng(seed)
    # Few different values: many rows are equal, opposite, zero or not finite.
    values = np.array([0.0, 0.0, 1.0, -1.0, 1.0 + 1e-6, np.nan], dtype=np.float32)
    embeddings = rng.choice(values, size=(num_rows, dimension), p=[0.3, 0.2, 0.2, 0.2, 0.09, 0.01])
    before = embeddings.copy()
    rows = maxvol_rows(embeddings, count, rank)
    np.testing.assert_array_equal(embeddings, before)
    assert rows.dtype == np.int64
    assert len(rows) <= min(max(count, 0), num_rows)
    assert (np.diff(rows) > 0).all()
    assert all(0 <= row < num_rows for row in rows)
    assert rows.tolist() == maxvol_rows(embeddings, count, rank).tolist()


def test_missing_features_are_reported() -> None:
    with pytest.raises(FeaturesMissingError):
        sampler().select(make_video(40, has_features=False), None, 4, None)


@pytest.mark.parametrize("options", [{"rank": 0}, {"rank": 257}, {"most_rows": 255}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidOptionsError, match=next(iter(options))):
        MaxvolSampler.Options(**options)
