from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.contract import Scene, TimeArray
from samplers.selection import (
    RealArray,
    apportion,
    capped_rows,
    finalise,
    finite_embeddings,
    is_degenerate,
    nms_rows,
    seeded_rng,
    shot_start_rows,
    top_rows,
    uniform_rows,
    usable_scores,
)
from samplers.testing import InMemoryVideo, make_video

ROWS = st.lists(st.integers(-3, 25), max_size=12)
COARSE_SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, np.nan]), min_size=20, max_size=20)


def filled_by_definition(
    rows: list[int], wanted: int, times_s: TimeArray, scores: RealArray
) -> list[int]:
    """The rule of the fill, word for word: O(budget x C^2)."""
    picks = list(rows)
    while len(picks) < wanted:
        free = [row for row in range(len(times_s)) if row not in picks]
        distance = {
            row: min((abs(times_s[row] - times_s[pick]) for pick in picks), default=np.inf)
            for row in free
        }
        picks.append(min(free, key=lambda row: (-distance[row], -scores[row], row)))
    return sorted(picks)


def regular_video(num_candidates: int) -> InMemoryVideo:
    """Even times make many exact ties of distance."""
    return InMemoryVideo(
        video_id="regular",
        timestamps_s=np.arange(2 * num_candidates) / 10,
        candidates=np.arange(0, 2 * num_candidates, 2),
        embeddings=None,
    )


def rows_of(indices: list[int], video: InMemoryVideo) -> list[int]:
    rows: list[int] = np.searchsorted(video.candidates, indices).tolist()
    return rows


@given(rows=ROWS, budget=st.integers(1, 25), scores=COARSE_SCORES, seed=st.integers(0, 5))
def test_finalise_fills_by_the_rule(
    rows: list[int], budget: int, scores: list[float], seed: int
) -> None:
    video = make_video(20, seed=seed) if seed else regular_video(20)
    ranked = np.array(scores)
    kept = capped_rows(rows, video, budget, ranked).tolist()
    times_s = video.timestamps_s[video.candidates]
    expected = filled_by_definition(kept, min(budget, 20), times_s, np.nan_to_num(ranked, nan=-9))
    assert rows_of(finalise(rows, video, budget, ranked), video) == expected


@given(rows=ROWS, budget=st.integers(-1, 25), scores=COARSE_SCORES)
def test_finalise_cuts_by_score_then_row(rows: list[int], budget: int, scores: list[float]) -> None:
    ranked = np.array(scores)
    valid = {row for row in rows if 0 <= row < 20}
    key = np.nan_to_num(ranked, nan=-9)
    best = sorted(valid, key=lambda row: (-key[row], row))[: max(budget, 0)]
    assert capped_rows(rows, regular_video(20), budget, ranked).tolist() == sorted(best)


def test_a_cut_without_scores_thins_evenly() -> None:
    assert capped_rows(range(20), regular_video(20), 4).tolist() == [2, 7, 12, 17]


def test_finalise_maps_rows_to_candidates_last() -> None:
    video = make_video(20, seed=3)
    indices = finalise([4, 4, 1, 99, -1], video, 2)
    assert indices == video.candidates[[1, 4]].tolist()
    assert all(type(index) is int for index in indices)


def test_finalise_fills_from_nothing_with_the_best_row_first() -> None:
    scores = np.zeros(20)
    scores[7] = 1.0
    assert rows_of(finalise([], regular_video(20), 1, scores), regular_video(20)) == [7]
    assert rows_of(finalise([], regular_video(20), 2, scores), regular_video(20)) == [7, 19]


@pytest.mark.parametrize("budget", [0, -4])
def test_finalise_without_budget_is_empty(budget: int) -> None:
    assert finalise([1, 2], regular_video(20), budget) == []


def test_finalise_of_a_huge_budget_is_every_candidate() -> None:
    video = regular_video(20)
    assert finalise([3], video, 10**9) == video.candidates.tolist()


@given(scores=COARSE_SCORES, count=st.integers(-1, 25))
def test_top_rows_are_the_best_by_score_then_row(scores: list[float], count: int) -> None:
    key = np.nan_to_num(np.array(scores), nan=-9)
    best = sorted(range(20), key=lambda row: (-key[row], row))[: max(count, 0)]
    assert top_rows(np.array(scores), count).tolist() == sorted(best)


@given(
    shares=st.lists(
        st.tuples(st.floats(0, 1e6, allow_subnormal=False), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    ),
    total=st.integers(0, 120),
)
def test_apportion_shares_everything_that_fits(shares: list[tuple[float, int]], total: int) -> None:
    weights = np.array([weight for weight, _ in shares])
    caps = np.array([cap for _, cap in shares])
    result = apportion(weights, total, caps)
    assert result.sum() == min(total, caps.sum())
    assert ((result >= 0) & (result <= caps)).all()


def test_apportion_follows_the_largest_remainders() -> None:
    room = np.full(3, 99)
    assert apportion(np.array([5.0, 3.0, 2.0]), 7, room).tolist() == [4, 2, 1]
    assert apportion(np.ones(3), 4, room).tolist() == [2, 1, 1]
    assert apportion(np.array([5.0, 3.0, 2.0]), 10, np.array([2, 99, 99])).tolist() == [2, 5, 3]


def test_uniform_rows_are_the_middles_of_equal_bins() -> None:
    assert uniform_rows(10, 5).tolist() == [1, 3, 5, 7, 9]
    assert uniform_rows(10, 3).tolist() == [1, 5, 8]


def test_uniform_rows_at_endpoints_follow_linspace() -> None:
    assert uniform_rows(10, 4, "endpoints").tolist() == [0, 3, 6, 9]
    assert uniform_rows(10, 1, "endpoints").tolist() == [0]


@pytest.mark.parametrize("mode", ["centre", "endpoints"])
def test_uniform_rows_of_nothing_are_empty(mode: str) -> None:
    assert uniform_rows(0, 3).tolist() == uniform_rows(3, 0).tolist() == []


@pytest.mark.parametrize(
    "scores",
    [[], [0.3], [0.3, 0.3], [0.1, np.nan], [0.1, np.inf], [-np.inf, 0.1], [0.2, 0.2 + 1e-13]],
)
def test_scores_that_rank_nothing_are_degenerate(scores: list[float]) -> None:
    assert is_degenerate(np.array(scores))


def test_scores_that_differ_are_not_degenerate() -> None:
    assert not is_degenerate(np.array([0.1, 0.2], dtype=np.float32))


def test_usable_scores_are_none_without_query_or_ranking() -> None:
    assert usable_scores(make_video(9), "default", None) is None
    assert usable_scores(make_video(9, score_kind="nan"), "default", "q") is None
    scores = usable_scores(make_video(9), "default", "q")
    assert scores is not None
    assert scores.shape == (9,)


def test_shots_without_a_candidate_disappear() -> None:
    candidates = np.array([3, 10, 11, 40])
    shots = [Scene(0, 5), Scene(5, 6), Scene(6, 11), Scene(11, 41), Scene(41, 50)]
    assert shot_start_rows(shots, candidates).tolist() == [0, 1, 2]


def test_the_first_shot_starts_at_row_zero_even_when_scenes_say_otherwise() -> None:
    assert shot_start_rows([], np.array([3, 10])).tolist() == [0]
    assert shot_start_rows([Scene(9, 20)], np.array([3, 10])).tolist() == [0, 1]
    assert shot_start_rows([Scene(0, 20)], np.array([], dtype=np.int64)).tolist() == []


def nms_by_definition(
    scores: list[float], times_s: TimeArray, count: int, gap_s: float
) -> list[int]:
    """One pick after the other, every free row compared with every pick: O(count x C x count)."""
    picks: list[int] = []
    while len(picks) < count:
        free = [
            row
            for row, score in enumerate(scores)
            if not np.isnan(score)
            and row not in picks
            and all(abs(times_s[row] - times_s[pick]) >= gap_s for pick in picks)
        ]
        if not free:
            break
        picks.append(min(free, key=lambda row: (-scores[row], row)))
    return sorted(picks)


@settings(deadline=None)
@given(data=st.data())
def test_suppression_keeps_the_best_of_every_neighbourhood(data: st.DataObject) -> None:
    # Quarters of a second are exact in binary, so that "exactly the gap apart" is hit often.
    steps = data.draw(st.lists(st.integers(1, 9), max_size=40))
    scores = data.draw(
        st.lists(
            st.sampled_from([-np.inf, -1.0, 0.0, 0.25, 1.0, np.nan]),
            min_size=len(steps),
            max_size=len(steps),
        )
    )
    count, gap_s = data.draw(st.integers(-1, 45)), data.draw(st.integers(0, 40)) / 4
    times_s = np.cumsum(np.array(steps, dtype=np.float64)) / 4
    rows = nms_rows(np.array(scores, dtype=np.float32), times_s, count, gap_s)
    assert rows.dtype == np.int64
    assert rows.tolist() == nms_by_definition(scores, times_s, count, gap_s)


def test_suppression_takes_more_rounds_when_the_best_rows_are_all_neighbours() -> None:
    times_s = np.arange(20_000) / 4
    scores = np.exp(-(((times_s - 2_000) / 500) ** 2))
    rows = nms_rows(scores, times_s, 8, 60.0)
    assert np.diff(times_s[rows]).min() >= 60.0
    assert rows.tolist() == [8_000 + 240 * step for step in range(-4, 4)]


def test_a_gap_below_the_resolution_of_the_times_repeats_nothing() -> None:
    rows = nms_rows(np.array([0.5, 0.7, 0.6]), np.array([1e6, 2e6, 3e6]), 9, 1e-12)
    assert rows.tolist() == [0, 1, 2]


def test_random_numbers_follow_from_video_question_budget_and_seed() -> None:
    video, other = make_video(9, seed=1), make_video(9, seed=2)
    cases = [(video, "q", 4, 0), (other, "q", 4, 0), (video, None, 4, 0), (video, "q", 5, 0)]
    cases += [(video, "null", 4, 0), (video, "q", 4, -1)]
    drawn = [seeded_rng(*case).random() for case in cases]
    assert len(set(drawn)) == len(cases)
    assert drawn == [seeded_rng(*case).random() for case in cases]
    # The same in every process and on every day: no hash of Python's own takes part.
    first = seeded_rng(regular_video(2), "q", 4, 0).random()
    assert first == pytest.approx(0.8927766557305493)


def test_embeddings_that_are_not_finite_become_zero_in_a_copy() -> None:
    embeddings = np.ones((4, 2), dtype=np.float32)
    assert finite_embeddings(embeddings) is embeddings
    embeddings[1, 0], embeddings[3, 1] = np.nan, -np.inf
    embeddings.flags.writeable = False
    assert finite_embeddings(embeddings).tolist() == [[1, 1], [0, 0], [1, 1], [0, 0]]
    assert finite_embeddings(embeddings).dtype == np.float32
