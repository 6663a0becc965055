from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samplers.contract import (
    FloatArray,
    FrameScorer,
    InvalidOptionsError,
    ScorerUnavailableError,
    TimeArray,
    VideoHandle,
    check_selection,
)
from samplers.frame_voyager_lite import FrameVoyagerLiteSampler, drawn_sets, frame_values
from samplers.model_scores import ALL_TAKEN_NOTE
from samplers.testing import (
    CountingScorer,
    FailingScorer,
    InMemoryScorer,
    InMemoryVideo,
    RareScorer,
    check_sampler,
    make_video,
)
from samplers.uniform import UniformSampler


@dataclass(frozen=True)
class HelpfulRows(FailingScorer):
    """A set suffices when it holds one of the helpful rows."""

    helpful: frozenset[int]
    asked: list[list[list[int]]] = field(default_factory=list)

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        self.asked.append([list(rows) for rows in sets])
        return np.array([0.9 if self.helpful & set(rows) else 0.1 for rows in sets], np.float32)


def sampler(scorer: FrameScorer | None, **options: Any) -> FrameVoyagerLiteSampler:
    built = FrameVoyagerLiteSampler.Options(**options)
    return FrameVoyagerLiteSampler(built, encoder="default", scorer=scorer)


def rows_of(video: InMemoryVideo, indices: list[int]) -> list[int]:
    rows: list[int] = np.searchsorted(video.candidates, indices).tolist()
    return rows


def rewards_of(sets: list[list[int]], helpful: set[int]) -> TimeArray:
    return np.array([float(bool(helpful & set(chosen))) for chosen in sets])


def even_video(num_rows: int, scores: TimeArray) -> InMemoryVideo:
    return InMemoryVideo(
        video_id="even",
        timestamps_s=np.arange(2 * num_rows) / 2,
        candidates=np.arange(0, 2 * num_rows, 2),
        embeddings=np.ones((num_rows, 1), dtype=np.float32),
        fixed_scores=scores.astype(np.float32),
    )


@pytest.fixture
def video() -> InMemoryVideo:
    return make_video(300, seed=11)


def test_it_keeps_the_contract_with_few_sets() -> None:
    check_sampler(
        FrameVoyagerLiteSampler, sampler(None, num_asked=6, num_sets=6, set_size=3).options
    )


@given(st.integers(2, 128), st.integers(1, 16), st.integers(2, 256), st.integers(0, 99))
def test_sets_differ_and_every_frame_comes_about_equally_often(
    num_frames: int, set_size: int, num_sets: int, seed: int
) -> None:
    set_size = min(set_size, num_frames // 2)
    sets = drawn_sets(num_frames, set_size, num_sets, np.random.default_rng(seed))
    assert 1 <= len(sets) <= num_sets
    assert len({tuple(chosen) for chosen in sets}) == len(sets)
    assert all(chosen == sorted(set(chosen)) and len(chosen) == set_size for chosen in sets)
    counts = np.bincount(np.concatenate(sets), minlength=num_frames)
    assert len(counts) == num_frames
    smallest, largest = num_frames // set_size, -(-num_frames // set_size)
    assert counts.max() <= 2 * (num_sets // (2 * smallest) + 2)
    if len(sets) == num_sets:
        assert counts.min() >= 2 * (num_sets // 2 // largest)


def test_half_of_the_sets_are_spread_over_time() -> None:
    sets = drawn_sets(32, 4, 64, np.random.default_rng(0))
    spread = [chosen for chosen in sets if [row // 8 for row in chosen] == [0, 1, 2, 3]]
    combed = [chosen for chosen in sets if sorted(row % 4 for row in chosen) == [0, 1, 2, 3]]
    assert len(sets) > 60
    assert min(len(spread), len(combed)) >= len(sets) // 2


def test_the_value_of_a_frame_is_what_it_adds_to_a_set() -> None:
    rng = np.random.default_rng(1)
    sets = drawn_sets(24, 4, 240, rng)
    effects = rng.standard_normal(24)
    rewards = np.array([0.3 + effects[chosen].sum() for chosen in sets])
    values = frame_values(sets, rewards, np.zeros(24, dtype=np.float32), 0.01)
    np.testing.assert_allclose(values, effects - effects.mean(), atol=0.02)


@pytest.mark.parametrize("helpful", [{5}, {3, 28}, set(range(8)), set(range(16, 24))])
def test_helpful_frames_are_found_among_unhelpful_ones(helpful: set[int]) -> None:
    sets = drawn_sets(32, 4, 64, np.random.default_rng(2))
    cosines = np.random.default_rng(3).random(32).astype(np.float32)
    values = frame_values(sets, rewards_of(sets, helpful), cosines, 1.0)
    found = helpful & set(np.argsort(-values)[: len(helpful)].tolist())
    assert len(found) >= 7 / 8 * len(helpful)


def test_missing_rewards_are_left_out() -> None:
    sets = drawn_sets(16, 4, 64, np.random.default_rng(4))
    cosines = np.linspace(0, 1, 16, dtype=np.float32)
    rewards = rewards_of(sets, {7})
    rewards[1::2] = np.nan
    values = frame_values(sets, rewards, cosines, 1.0)
    np.testing.assert_array_equal(values, frame_values(sets[::2], rewards[::2], cosines, 1.0))
    assert int(values.argmax()) == 7


def test_where_a_frame_was_not_judged_its_cosine_speaks() -> None:
    cosines = np.array([0.0, 0.0, 0.0, 0.0, 0.4, 0.2], dtype=np.float32)
    values = frame_values([[0, 1], [2, 3]], np.array([0.9, 0.1]), cosines, 1.0)
    assert values[4] > values[5] > values[2]
    assert values[0] > values[2]


def test_a_heavier_prior_moves_the_values_towards_the_cosines() -> None:
    sets = drawn_sets(16, 4, 64, np.random.default_rng(4))
    cosines = np.linspace(0, 1, 16, dtype=np.float32)
    rewards = rewards_of(sets, {0})
    assert int(frame_values(sets, rewards, cosines, 1.0).argmax()) == 0
    assert int(frame_values(sets, rewards, cosines, 100.0).argmax()) == 15


@given(st.floats(0, 1, width=32), st.integers(1, 64))
def test_equal_rewards_tell_nothing(reward: float, num_sets: int) -> None:
    sets = drawn_sets(32, 4, 64, np.random.default_rng(0))[:num_sets]
    cosines = np.random.default_rng(1).random(32).astype(np.float32)
    assert not frame_values(sets, np.full(len(sets), reward), cosines, 1.0).any()


def test_equal_rewards_leave_the_order_to_the_cosine() -> None:
    scores = np.random.default_rng(3).random(32)
    video = even_video(32, scores)
    picks = sampler(HelpfulRows(frozenset())).select(video, "q", 1, None)
    assert rows_of(video, picks) == [int(scores.argmax())]


def test_the_model_decides_not_the_cosine() -> None:
    scores = np.random.default_rng(5).random(200)
    helpful = frozenset(np.argsort(-scores)[[6, 9]].tolist())
    video = even_video(200, scores)
    scorer = HelpfulRows(helpful)
    picks = sampler(scorer).select(video, "q", 2, None)
    asked = {row for rows in scorer.asked[0] for row in rows}
    assert helpful <= asked
    assert rows_of(video, picks) == sorted(helpful)


@pytest.mark.parametrize("budget", [1, 4, 16, 31])
def test_it_asks_about_as_many_sets_as_the_option_says(video: InMemoryVideo, budget: int) -> None:
    scorer = CountingScorer(InMemoryScorer())
    noted = sampler(scorer).select_with_note(video, "q", budget, None)
    assert scorer.sizes == [64]
    assert noted.note == "asked about 64 sets of 4 of 32 of 300 candidates, 64 answered"
    check_selection(noted.indices, video, budget, fills_budget=True)


@pytest.mark.parametrize(("num_candidates", "most"), [(2, 2), (3, 3), (5, 10), (40, 64)])
def test_no_set_is_asked_about_twice(num_candidates: int, most: int) -> None:
    scorer = HelpfulRows(frozenset({0}))
    sampler(scorer).select(make_video(num_candidates), "q", 1, None)
    sets = [tuple(rows) for rows in scorer.asked[0]]
    assert len(sets) == len(set(sets)) <= most


def test_another_seed_question_budget_or_video_draws_other_sets(video: InMemoryVideo) -> None:
    drawn = []
    for seed, query, budget, other in (
        (0, "q", 4, video),
        (1, "q", 4, video),
        (0, "r", 4, video),
        (0, "q", 5, video),
        (0, "q", 4, make_video(300, seed=12)),
    ):
        scorer = HelpfulRows(frozenset())
        sampler(scorer, seed=seed).select(other, query, budget, None)
        drawn.append(scorer.asked[0])
    assert all(sets != drawn[0] for sets in drawn[1:])


def test_the_note_counts_the_answers(video: InMemoryVideo) -> None:
    noted = sampler(RareScorer(InMemoryScorer())).select_with_note(video, "q", 8, None)
    assert noted.note == "asked about 64 sets of 4 of 32 of 300 candidates, 22 answered"


@pytest.mark.parametrize("budget", [32, 33, 299])
def test_a_budget_that_takes_all_it_would_ask_about_asks_nothing(
    video: InMemoryVideo, budget: int
) -> None:
    noted = sampler(FailingScorer()).select_with_note(video, "q", budget, None)
    check_selection(noted.indices, video, budget, fills_budget=True)
    assert noted.note == ALL_TAKEN_NOTE


@pytest.mark.parametrize("kind", ["no query", "constant", "nan"])
def test_the_fallback_is_uniform_and_asks_nothing(kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    indices = sampler(FailingScorer()).select(video, query, 7, None)
    uniform = UniformSampler(UniformSampler.Options(), encoder="default")
    assert indices == uniform.select(video, None, 7, None)


@pytest.mark.parametrize("scorer", [None, FailingScorer()])
def test_a_model_that_cannot_be_asked_is_reported_as_such(
    video: InMemoryVideo, scorer: FrameScorer | None
) -> None:
    with pytest.raises(ScorerUnavailableError):
        sampler(scorer).select(video, "q", 4, None)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"num_asked": 3}, "num_asked"),
        ({"num_asked": 129}, "num_asked"),
        ({"num_sets": 257}, "num_sets"),
        ({"set_size": 1}, "set_size"),
        ({"set_size": 17}, "set_size"),
        ({"num_asked": 6, "set_size": 4}, "set_size"),
        ({"prior_weight": 0.0}, "prior_weight"),
        ({"prior_weight": float("nan")}, "prior_weight"),
        ({"num_asked": 128, "num_sets": 63}, "every frame to come twice"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidOptionsError, match=named):
        FrameVoyagerLiteSampler.Options(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"num_asked": 4, "set_size": 2, "num_sets": 4, "prior_weight": 0.01},
        {"num_asked": 128, "set_size": 16, "num_sets": 256, "prior_weight": 100.0},
        {"num_asked": 128, "set_size": 4, "num_sets": 64},
    ],
)
def test_the_bounds_themselves_are_allowed(options: dict[str, Any]) -> None:
    indices = sampler(InMemoryScorer(), **options).select(make_video(150), "q", 3, None)
    assert len(indices) == 3
