from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.contract import FeaturesMissingError, FloatArray, InvalidOptionsError, TimeArray
from samplers.gift import GiftSampler
from samplers.maxvol import (
    DEFAULT_MOST_ROWS,
    MOST_PRODUCTS,
    MaxvolSampler,
    affordable_rows,
    earliest_equal_rows,
    left_singular_vectors,
    maxvol_rows,
    rectangular_maxvol,
    square_maxvol,
)
from samplers.selection import uniform_rows
from samplers.testing import InMemoryVideo, make_video
from samplers.uniform import UniformSampler
from samplers.wfs import WfsSampler

SEEDS = st.integers(0, 2**32)


@st.composite
def matrices(draw: st.DrawFn, most_rows: int = 12) -> TimeArray:
    """float64 `[C, r]` of full rank: rows of very different length, or all of nearly one."""
    rank = draw(st.integers(1, 4))
    num_rows = draw(st.integers(rank, most_rows))
    rng = np.random.default_rng(draw(SEEDS))
    rows = rng.standard_normal((num_rows, rank))
    if draw(st.booleans()):
        return np.linalg.qr(rows * rng.exponential(size=(num_rows, 1)))[0]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True) * rng.uniform(1, 1.01, (num_rows, 1))
    nearly_unit: TimeArray = rows / lengths
    return nearly_unit


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


@settings(deadline=None)
@given(vectors=matrices())
def test_no_swap_raises_the_volume_by_more_than_five_percent(vectors: TimeArray) -> None:
    rows = square_maxvol(vectors)
    reached = volume(vectors[rows])
    for column, row in product(range(len(rows)), range(len(vectors))):
        swapped = rows.copy()
        swapped[column] = row
        # Two equal rows span nothing, up to the square root of the rounding.
        assert volume(vectors[swapped]) <= 1.05 * reached + 1e-7


@settings(deadline=None)
@given(vectors=matrices())
def test_the_volume_comes_near_the_greatest_of_all(vectors: TimeArray) -> None:
    num_rows, rank = vectors.shape
    greatest = max(volume(vectors[list(rows)]) for rows in combinations(range(num_rows), rank))
    # Hadamard's bound on the coefficients of a matrix that no swap improves.
    least = greatest / (1.05 * np.sqrt(rank)) ** rank
    assert volume(vectors[square_maxvol(vectors)]) >= least * (1 - 1e-9)


def test_rows_that_pivoting_takes_first_are_exchanged_for_better_ones() -> None:
    # The longest row lies between two others, which together span 1.4 times as much as with it.
    between = np.array([[0.7, 0.7], [1.0, 0.0], [0.7, -0.7]])
    assert sorted(square_maxvol(between)) == [0, 2]


@settings(deadline=None)
@given(vectors=matrices(most_rows=40), count=st.integers(1, 20))
def test_every_further_row_raises_the_volume_as_much_as_one_can(
    vectors: TimeArray, count: int
) -> None:
    start = square_maxvol(vectors)
    rows = rectangular_maxvol(vectors, start, count)
    assert rows[: len(start)].tolist() == start.tolist()
    for size in range(len(start), len(rows)):
        others = [row for row in range(len(vectors)) if row not in rows[:size]]
        best = max(volume(vectors[[*rows[:size], row]]) for row in others)
        assert volume(vectors[rows[: size + 1]]) == pytest.approx(best, rel=1e-6)


@settings(deadline=None)
@given(vectors=matrices(most_rows=40))
def test_rows_are_added_until_all_others_are_represented(vectors: TimeArray) -> None:
    rows = rectangular_maxvol(vectors, square_maxvol(vectors), len(vectors))
    coefficients = vectors @ np.linalg.pinv(vectors[rows])
    others = np.delete(np.linalg.norm(coefficients, axis=1), rows)
    assert others.max(initial=0.0) <= 1.05 * (1 + 1e-6)
    assert len(np.unique(rows)) == len(rows)
    if len(rows) > vectors.shape[1]:
        before = vectors @ np.linalg.pinv(vectors[rows[:-1]])
        assert np.linalg.norm(before[rows[-1]]) > 1.05 * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_many_directions_need_exchanges_and_additions(seed: int) -> None:
    vectors = np.random.default_rng(seed).standard_normal((200, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    start = square_maxvol(vectors)
    # A coefficient is the factor by which an exchange multiplies the volume.
    assert np.abs(vectors @ np.linalg.inv(vectors[start])).max() <= 1.05 * (1 + 1e-9)
    rows = rectangular_maxvol(vectors, start, 200)
    assert len(rows) >= 20
    for size in range(16, len(rows)):
        norms = np.linalg.norm(vectors @ np.linalg.pinv(vectors[rows[:size]]), axis=1)
        assert norms[rows[size]] == pytest.approx(norms.max(), rel=1e-6)


@pytest.mark.parametrize("seed", [273, 344, 470, 506])
def test_a_row_that_was_exchanged_once_may_be_exchanged_again(seed: int) -> None:
    # Seeds at which that happens.
    vectors = np.random.default_rng(seed).standard_normal((20, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = square_maxvol(vectors)
    assert np.abs(vectors @ np.linalg.inv(vectors[rows])).max() <= 1.05 * (1 + 1e-9)


def test_a_row_is_added_where_two_of_the_plane_need_large_coefficients() -> None:
    spokes = np.array([[1.0, 0.0], [0.5, 0.75**0.5], [-0.5, 0.75**0.5], [0.1, 0.1]])
    start = square_maxvol(spokes)
    assert sorted(rectangular_maxvol(spokes, start, 2)) == sorted(start)
    # Each of the three is the sum or difference of the two others.
    assert sorted(rectangular_maxvol(spokes, start, 4)) == [0, 1, 2]


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


@pytest.mark.parametrize("rank", [1, 64])
def test_one_frame_is_the_one_most_like_all_others(rank: int) -> None:
    common, rare = unit(np.random.default_rng(4).standard_normal((2, 32)))
    embeddings = np.tile(common, (31, 1))
    embeddings[10:20] = rare
    (picked,) = sampler(rank=rank).select(embedded_video(embeddings), None, 1, None)
    assert not 10 <= picked // 3 < 20


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


@settings(deadline=None)
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


@pytest.mark.parametrize("dimension", [16, 64, 257])
@pytest.mark.parametrize("frames_each", [2, 5, 31])
def test_of_equal_pictures_the_earliest_is_chosen(frames_each: int, dimension: int) -> None:
    embeddings = slides(20, frames_each, dimension)
    for count in (2, 7, 16):
        assert set(maxvol_rows(embeddings, count) % frames_each) == {0}
    video = embedded_video(embeddings)
    earliest = set(video.candidates[::frames_each].tolist())
    gift = GiftSampler(GiftSampler.Options(), encoder="default")
    wfs = WfsSampler(WfsSampler.Options(), encoder="default")
    assert set(gift.select(video, None, 7, None)) <= earliest
    assert set(wfs.select(video, None, 7, None)) <= earliest


def test_equal_pictures_are_found_by_every_number_not_by_their_sum() -> None:
    permuted = np.array([[1, 2], [2, 1], [1, 2], [2, 1], [np.nan, 1]], dtype=np.float32)
    assert earliest_equal_rows(permuted, np.array([3, 2])).tolist() == [0, 1]
    assert earliest_equal_rows(permuted, np.array([4, 3])).tolist() == [1, 4]
    assert earliest_equal_rows(permuted, np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize(("rank", "count"), [(64, 64), (64, 512), (8, 4096)])
def test_usual_settings_compare_as_many_rows_as_they_say(rank: int, count: int) -> None:
    assert affordable_rows(count, rank, 1152) >= DEFAULT_MOST_ROWS


@pytest.mark.parametrize("count", [256, 512, 20_000])
@pytest.mark.parametrize("dimension", [768, 1152, 4096])
def test_the_work_is_bounded_whatever_the_options(count: int, dimension: int) -> None:
    num_rows = affordable_rows(count, 256, dimension)
    assert 256 <= num_rows < 20_000
    assert num_rows == 256 or num_rows * 264 * (3 * dimension + 512 + count) <= MOST_PRODUCTS


def test_what_would_cost_too_much_is_thinned_evenly() -> None:
    wide = unit(np.random.default_rng(3).standard_normal((400, 20_000)))
    assert affordable_rows(256, 256, 20_000) == 256
    assert set(maxvol_rows(wide, 256, rank=256)) <= set(uniform_rows(400, 256))


def test_missing_features_are_reported() -> None:
    with pytest.raises(FeaturesMissingError):
        sampler().select(make_video(40, has_features=False), None, 4, None)


@pytest.mark.parametrize("options", [{"rank": 0}, {"rank": 257}, {"most_rows": 255}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidOptionsError, match=next(iter(options))):
        MaxvolSampler.Options(**options)
