from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.reduce.contract import InvalidReducerOptionsError, ReducedTokens, Reducer
from app.reduce.registry import REDUCERS, build_reducer
from samplers.contract import FloatArray

SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(1, 6))
RATIOS = st.floats(0.01, 1.0)


def random_tokens(shape: tuple[int, int, int], seed: int) -> FloatArray:
    """Half of the frames repeat the one before, as in a video."""
    rng = np.random.default_rng(seed)
    tokens = rng.random(shape, dtype=np.float32)
    for frame in range(1, shape[0]):
        if rng.random() < 0.5:
            tokens[frame] = tokens[frame - 1]
    return tokens


def merge(keep_ratio: float) -> Reducer:
    return build_reducer("merge", {"keep_ratio": keep_ratio})


def spans_at(reduced: ReducedTokens, position: int) -> list[list[int]]:
    spans: list[list[int]] = reduced.frame_spans[reduced.positions == position].tolist()
    return spans


@pytest.mark.parametrize("reducer_id", sorted(REDUCERS))
@given(shape=SHAPES, seed=st.integers(0, 1000))
def test_every_reducer_returns_as_many_tokens_as_it_said(
    reducer_id: str, shape: tuple[int, int, int], seed: int
) -> None:
    reducer, (num_frames, per_frame, dim) = build_reducer(reducer_id, {}), shape
    reduced = reducer.reduce(random_tokens(shape, seed))
    num_tokens = reducer.num_tokens(num_frames, per_frame)
    assert reduced.tokens.shape == (num_tokens, dim)
    assert reduced.tokens.dtype == np.float32
    assert reduced.frame_spans.shape == (num_tokens, 2)
    assert reduced.positions.shape == (num_tokens,)
    assert reduced.num_tokens_before == num_frames * per_frame
    assert num_tokens <= max(per_frame, num_frames * reducer.tokens_per_frame(per_frame))


@pytest.mark.parametrize("reducer_id", sorted(REDUCERS))
@given(shape=SHAPES, seed=st.integers(0, 1000))
def test_every_reducer_covers_each_position_by_unbroken_runs_of_frames(
    reducer_id: str, shape: tuple[int, int, int], seed: int
) -> None:
    reduced = build_reducer(reducer_id, {}).reduce(random_tokens(shape, seed))
    for position in range(shape[1]):
        spans = spans_at(reduced, position)
        covered = [frame for first, last in spans for frame in range(first, last + 1)]
        assert covered == list(range(shape[0]))
    keys = list(zip(reduced.frame_spans[:, 0].tolist(), reduced.positions.tolist(), strict=True))
    assert keys == sorted(keys)


@pytest.mark.parametrize("reducer_id", sorted(REDUCERS))
@given(shape=SHAPES, seed=st.integers(0, 1000))
def test_every_reducer_is_deterministic_and_leaves_its_input(
    reducer_id: str, shape: tuple[int, int, int], seed: int
) -> None:
    tokens = random_tokens(shape, seed)
    tokens.flags.writeable = False
    reducer = build_reducer(reducer_id, {})
    first, second = reducer.reduce(tokens), reducer.reduce(tokens)
    assert np.array_equal(first.tokens, second.tokens)
    assert np.array_equal(first.frame_spans, second.frame_spans)


@given(num_frames=st.integers(1, 300), per_frame=st.integers(1, 800), ratio=RATIOS)
def test_the_cost_of_a_frame_bounds_the_tokens_of_merge(
    num_frames: int, per_frame: int, ratio: float
) -> None:
    reducer = merge(ratio)
    bound = max(per_frame, num_frames * reducer.tokens_per_frame(per_frame))
    assert reducer.num_tokens(num_frames, per_frame) <= bound


@given(shape=SHAPES, seed=st.integers(0, 1000), ratio=RATIOS)
def test_merge_keeps_the_share_and_a_token_for_every_position(
    shape: tuple[int, int, int], seed: int, ratio: float
) -> None:
    num_frames, per_frame, _ = shape
    reduced = merge(ratio).reduce(random_tokens(shape, seed))
    share = math.ceil(round(num_frames * per_frame * ratio, 6))
    assert len(reduced.tokens) == pytest.approx(max(per_frame, share), abs=1)
    assert set(reduced.positions.tolist()) == set(range(per_frame))


@given(shape=SHAPES, seed=st.integers(0, 1000), ratio=RATIOS)
def test_every_merged_token_is_the_mean_of_the_frames_it_covers(
    shape: tuple[int, int, int], seed: int, ratio: float
) -> None:
    tokens = random_tokens(shape, seed)
    reduced = merge(ratio).reduce(tokens)
    for token, (first, last), position in zip(
        reduced.tokens, reduced.frame_spans, reduced.positions, strict=True
    ):
        mean = tokens[first : last + 1, position].mean(axis=0)
        assert token == pytest.approx(mean, rel=1e-4, abs=1e-5)


def test_a_share_that_binary_rounds_up_is_still_exact() -> None:
    assert merge(0.07).num_tokens(100, 1) == 7


def test_identical_neighbours_merge_first() -> None:
    one, two, three = np.eye(3, dtype=np.float32)
    still_then_moving = np.stack([one, one, one, two, two, three])[:, None, :]
    reduced = merge(0.5).reduce(still_then_moving)
    assert reduced.frame_spans.tolist() == [[0, 2], [3, 4], [5, 5]]
    assert np.array_equal(reduced.tokens, np.stack([one, two, three]))


def test_a_still_position_gives_up_its_tokens_before_a_moving_one() -> None:
    tokens = np.stack([np.eye(4), np.tile(np.eye(4)[0], (4, 1))], axis=1).astype(np.float32)
    reduced = merge(0.625).reduce(tokens)
    assert spans_at(reduced, 0) == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert spans_at(reduced, 1) == [[0, 3]]


@pytest.mark.parametrize("value", [0.0, 1.0, math.nan, math.inf])
def test_merge_survives_constant_and_broken_tokens(value: float) -> None:
    tokens = np.full((6, 3, 4), value, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        reduced = merge(0.5).reduce(tokens)
    assert reduced.tokens.shape == (9, 4)


def test_ratio_one_keeps_everything() -> None:
    tokens = random_tokens((5, 2, 3), 1)
    kept, everything = merge(1.0).reduce(tokens), build_reducer("none", {}).reduce(tokens)
    assert np.array_equal(kept.tokens, everything.tokens)
    assert np.array_equal(kept.frame_spans, everything.frame_spans)


@pytest.mark.parametrize("options", [{"keep_ratio": 0.0}, {"keep_ratio": 1.1}, {"ratio": 0.5}])
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidReducerOptionsError):
        build_reducer("merge", options)


def test_every_reducer_stands_on_its_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reducers.md").read_text()
    assert all(f"| `{reducer_id}` |" in page for reducer_id in REDUCERS)
