from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.contract import (
    FrameScorer,
    InvalidOptionsError,
    Scene,
    ScorerUnavailableError,
    TimeArray,
    check_selection,
)
from samplers.focus import (
    Draw,
    FocusSampler,
    arm_statistics,
    coarse_rows,
    equal_arms,
    fine_rows,
)
from samplers.focus_upstream import UpstreamSettings, driver_min_gap_s, upstream_rows
from samplers.score_oracle import Answers, CachedOracle
from samplers.testing import (
    ConstantScorer,
    CountingScorer,
    FailingScorer,
    InMemoryScorer,
    InMemoryVideo,
    RareScorer,
    make_video,
)
from samplers.uniform import UniformSampler
from tests.samplers.golden_cases import HERE, GoldenCase, case_name, case_scores, golden_cases

CASES = golden_cases(HERE / "focus.json")
PARAMETERS = {"coarse_every_sec": "coarse_every_s", "interpolation_method": "interpolation"}


def upstream(case: GoldenCase) -> list[int]:
    scores = case_scores(case)
    if "scores" not in case:
        scores = (scores - scores.min()) / (scores.max() - scores.min())
    parameters = {PARAMETERS.get(k, k): v for k, v in case.get("params", {}).items()}
    given_by = UpstreamSettings(fps=case["fps"], min_gap_s=case["min_gap_sec"], **parameters)
    return upstream_rows(
        answers_from(scores), case["budget"], np.random.default_rng(case["rng_seed"]), given_by
    )


def answers_from(relevance: TimeArray, limit: int = 10**6) -> Answers:
    return Answers(CachedOracle(relevance), len(relevance), limit)


def scored_video(scores: TimeArray, video_id: str = "scored", fps: float = 1.0) -> InMemoryVideo:
    count = len(scores)
    return InMemoryVideo(
        video_id=video_id,
        timestamps_s=np.arange(3 * count) / (3 * fps),
        candidates=np.arange(1, 3 * count, 3),
        embeddings=np.ones((count, 1), dtype=np.float32),
        fixed_scores=scores.astype(np.float32),
    )


def seconds(num_rows: int, fps: float = 1.0) -> TimeArray:
    times_s: TimeArray = np.arange(num_rows, dtype=np.float64) / fps
    return times_s


def moment(num_rows: int, at: int, width: float = 8.0) -> TimeArray:
    noise = 0.05 * np.random.default_rng(0).random(num_rows)
    bump: TimeArray = np.exp(-0.5 * ((np.arange(num_rows) - at) / width) ** 2)
    return noise + bump


def video_of_cosines(cosines: TimeArray) -> InMemoryVideo:
    """A video whose pictures have these cosines with the question "q"."""
    video = scored_video(cosines)
    pair = replace(video, embeddings=np.ones((1, 2), dtype=np.float32))
    along = pair.query_embedding("default", "q").astype(np.float64)
    across = np.array([-along[1], along[0]])
    angles = np.arccos(cosines.clip(0, 1))
    pictures = np.outer(np.cos(angles), along) + np.outer(np.sin(angles), across)
    return replace(video, embeddings=pictures.astype(np.float32), fixed_scores=None)


def sampler(scorer: FrameScorer | None = None, **options: Any) -> FocusSampler:
    return FocusSampler(
        replace(FocusSampler.Options(), **options), encoder="default", scorer=scorer
    )


def uniform(video: InMemoryVideo, budget: int) -> list[int]:
    rows = UniformSampler(UniformSampler.Options(), encoder="default")
    return rows.select(video, None, budget, None)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_upstream_rows_equal_the_authors_output(case: GoldenCase) -> None:
    assert upstream(case) == case["expected"]


def test_upstream_rows_equal_the_authors_output_on_the_full_set(shared_dir: Path) -> None:
    cases = golden_cases(shared_dir / "golden" / "focus.json")
    assert len(cases) == 24
    assert [upstream(case) for case in cases] == [case["expected"] for case in cases]


@pytest.mark.parametrize("case", [c for c in CASES if "n_scored" in c], ids=case_name)
def test_upstream_rows_score_as_many_rows_as_the_authors_program(case: GoldenCase) -> None:
    scores = case_scores(case)
    answers = answers_from((scores - scores.min()) / (scores.max() - scores.min()))
    rng = np.random.default_rng(case["rng_seed"])
    upstream_rows(answers, case["budget"], rng, UpstreamSettings(min_gap_s=1.0))
    assert answers.num_asked == case["n_scored"]


def test_upstream_mode_selects_the_upstream_rows_of_the_scaled_cosines() -> None:
    cosines = 0.1 + 0.2 * np.random.default_rng(4).random(700).astype(np.float32)
    exact = cosines.astype(np.float64)
    video = scored_video(exact)
    relevance = (exact - exact.min()) / (exact.max() - exact.min())
    settings_of_video = UpstreamSettings(min_gap_s=driver_min_gap_s(700.0, 32))
    rng = np.random.default_rng(42)
    rows = upstream_rows(answers_from(relevance), 32, rng, settings_of_video)
    assert len(rows) == 32
    selected = sampler(compat="upstream").select(video, "q", 32, None)
    assert selected == video.candidates[rows].tolist()


def test_upstream_draws_keep_their_gap_from_the_best_scored_rows() -> None:
    relevance = np.random.default_rng(6).random(2400)
    answers = answers_from(relevance)
    rng = np.random.default_rng(0)
    rows = upstream_rows(answers, 30, rng, UpstreamSettings(fps=8.0, min_gap_s=1.0))
    scored = np.nan_to_num(answers.relevance)
    best = np.argsort(-scored, kind="stable")[: round(0.2 * 30)]
    drawn = np.setdiff1d(rows, best)
    assert len(drawn) >= 16
    assert np.abs(drawn[:, np.newaxis] - best).min() >= 8


@pytest.mark.parametrize(("compat", "budget"), [("safe", 8), ("safe", 4), ("upstream", 8)])
def test_the_budget_is_filled_where_upstream_returns_less(compat: str, budget: int) -> None:
    scores = np.array(CASES[1]["scores"])
    assert len(upstream(CASES[1])) == 6
    video = scored_video(scores)
    indices = sampler(compat=compat).select(video, "q", budget, None)
    check_selection(indices, video, budget, fills_budget=True)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 310), st.floats(0.05, 12), st.integers(0, 2**32))
def test_safe_mode_fills_any_budget_at_any_rate(
    num_rows: int, budget: int, fps: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    video = scored_video(rng.random(num_rows) ** 9, fps=fps)
    indices = sampler().select(video, "q", budget, None)
    check_selection(indices, video, budget, fills_budget=True)


def test_the_tail_belongs_to_the_last_arm() -> None:
    arms = equal_arms(seconds(1001), clip_s=16.0, limit=1001)
    assert arms.starts[0] == 0
    assert arms.starts[-1] == 1001
    assert arms.sizes.max() - arms.sizes.min() <= 1


def test_arms_are_clips_of_time_not_of_rows() -> None:
    # A slide show: 100 rows in the first second, then one every ten.
    times_s = np.concatenate([np.arange(100) / 100, 10.0 * np.arange(1, 16)])
    arms = equal_arms(times_s, clip_s=15.0, limit=115)
    assert arms.sizes.tolist()[0] == 101
    assert len(arms.sizes) == 10


def test_every_arm_is_sampled_at_its_middle_and_twice_elsewhere() -> None:
    arms = equal_arms(seconds(160), clip_s=16.0, limit=160)
    rows = coarse_rows(arms, np.random.default_rng(0))
    assert len(np.unique(rows)) == 30
    assert np.bincount(arms.arm_of_rows[rows]).tolist() == [3] * 10
    assert set(range(7, 160, 16)) <= set(rows.tolist()) | set(range(8, 160, 16))


def test_arms_of_one_or_two_rows_are_sampled_whole() -> None:
    arms = equal_arms(seconds(12), clip_s=2.0, limit=8)
    rows = coarse_rows(arms, np.random.default_rng(0))
    assert sorted(rows.tolist()) == list(range(12))


def test_fine_answers_count_for_the_arm_they_lie_in() -> None:
    arms = equal_arms(seconds(160), clip_s=16.0, limit=160)
    rng = np.random.default_rng(0)
    answers = answers_from(rng.random(160))
    answers.ask(coarse_rows(arms, rng))
    before = arm_statistics(arms, answers.relevance).count
    answers.ask(fine_rows(arms, np.array([2, 5]), answers, 1.0, rng))
    gained = arm_statistics(arms, answers.relevance).count - before
    assert np.flatnonzero(gained).tolist() == [2, 5]
    assert before.tolist() == [3.0] * 10
    assert gained[[2, 5]].tolist() == [13.0, 13.0]


def test_the_closer_look_takes_its_rate_from_time_not_from_rows() -> None:
    arms = equal_arms(seconds(800, fps=5), clip_s=16.0, limit=800)
    answers = answers_from(np.zeros(800))
    rows = fine_rows(arms, np.array([3]), answers, 0.5, np.random.default_rng(0))
    assert len(rows) == 8
    assert np.diff(rows).max() < 20


def test_what_is_left_of_the_calls_is_shared_by_the_promising_arms() -> None:
    arms = equal_arms(seconds(160), clip_s=16.0, limit=160)
    answers = answers_from(np.zeros(160), limit=9)
    rows = fine_rows(arms, np.array([1, 4, 8]), answers, 1.0, np.random.default_rng(0))
    assert np.bincount(arms.arm_of_rows[rows], minlength=10)[[1, 4, 8]].tolist() == [3, 3, 3]


def test_an_arm_without_answers_comes_last() -> None:
    arms = equal_arms(seconds(80), clip_s=10.0, limit=80)
    relevance = np.full(80, np.nan)
    relevance[:70] = 0.1
    statistics = arm_statistics(arms, relevance)
    assert np.argmin(statistics.mean) == 7
    assert np.argmin(statistics.upper_bounds) == 7


def test_between_answers_relevance_is_drawn_along_straight_lines() -> None:
    # All of one arm: known ends 0 and 1, unknown rows between them; the draw leans to the 1.
    times_s = seconds(64)
    counts = np.zeros(64)
    for seed in range(200):
        answers = answers_from(np.where(np.arange(64) == 63, 1.0, 0.0))
        answers.ask(np.array([63, 0]))
        arms = equal_arms(times_s, clip_s=64.0, limit=1)
        rows = Draw(arms, answers, times_s, 4).rows(np.array([0]), np.random.default_rng(seed))
        counts[rows] += 1
    assert counts[48:].sum() > 0.85 * counts.sum()


def test_drawn_frames_keep_apart_where_there_is_room() -> None:
    video = scored_video(np.tile([0.2, 0.9, 0.3, 0.8], 100), fps=8.0)
    indices = sampler().select(video, "q", 20, None)
    top = round(0.2 * 20)
    times_s = video.timestamps_s[indices]
    assert np.count_nonzero(np.diff(times_s) < 0.25 * 400 / 8 / 20) <= top


def test_a_moment_is_found_in_vectors() -> None:
    video = scored_video(moment(600, at=433))
    rows = np.searchsorted(video.candidates, sampler().select(video, "q", 8, None))
    assert np.count_nonzero(np.abs(rows - 433) <= 16) >= 4


def test_a_moment_is_found_by_a_model() -> None:
    video = video_of_cosines(moment(600, at=433))
    focus = sampler(InMemoryScorer(), oracle="model")
    rows = np.searchsorted(video.candidates, focus.select(video, "q", 8, None))
    assert np.count_nonzero(np.abs(rows - 433) <= 16) >= 4


@pytest.mark.parametrize("compat", ["safe", "upstream"])
@pytest.mark.parametrize("max_calls", [8, 40, 128, 10_000])
def test_a_model_is_asked_about_no_row_twice_and_about_no_more_than_allowed(
    compat: str, max_calls: int
) -> None:
    video = make_video(1500, seed=2)
    scorer = CountingScorer(InMemoryScorer())
    focus = sampler(scorer, oracle="model", compat=compat, max_calls=max_calls)
    note = focus.select_with_note(video, "q", 16, None).note
    # The note counts rows, the scorer counts questions: they differ if a row is asked about twice.
    assert note is not None
    assert f"asked about {scorer.num_questions:,} of 1,500 candidates" in note
    assert 8 <= scorer.num_questions <= min(max_calls, 1500)
    assert len(scorer.sizes) <= 2


def test_of_cached_cosines_nothing_is_said_to_be_saved() -> None:
    video = scored_video(moment(3600, at=900))
    note = sampler().select_with_note(video, "q", 64, None).note
    assert note is not None
    assert note.startswith("looked at the cosines of 1,4")
    assert note.endswith(" of 3,600 candidates")


def test_calls_are_saved_where_a_model_is_asked() -> None:
    video = make_video(1500, seed=2)
    focus = sampler(InMemoryScorer(), oracle="model")
    note = focus.select_with_note(video, "q", 16, None).note
    assert note is not None
    assert note.endswith("were saved")


def test_rows_that_the_model_leaves_out_are_missing_not_zero() -> None:
    answers = answers_from(np.array([0.4, np.nan, 0.8, np.nan]))
    answers.ask(np.array([0, 1, 2]))
    assert answers.known_rows.tolist() == [0, 2]
    assert answers.num_asked == 3
    video = video_of_cosines(moment(600, at=433))
    rare = sampler(RareScorer(InMemoryScorer()), oracle="model")
    check_selection(rare.select(video, "q", 8, None), video, 8, fills_budget=True)


def test_beyond_the_limit_an_even_thinning_is_asked_about() -> None:
    answers = answers_from(np.zeros(100), limit=10)
    answers.ask(np.arange(100))
    assert np.flatnonzero(answers.is_asked).tolist() == list(range(5, 100, 10))
    answers.ask(np.arange(100))
    assert answers.num_left == 0


@pytest.mark.parametrize("scorer", [None, FailingScorer()])
def test_a_missing_or_failing_model_is_reported_as_such(scorer: FrameScorer | None) -> None:
    with pytest.raises(ScorerUnavailableError):
        sampler(scorer, oracle="model").select(make_video(90), "q", 8, None)


def test_a_model_is_not_asked_without_a_question_nor_when_all_frames_fit() -> None:
    video = make_video(90)
    focus = sampler(FailingScorer(), oracle="model")
    assert focus.select(video, None, 8, None) == uniform(video, 8)
    assert focus.select(video, "q", 90, None) == video.candidates.tolist()
    assert focus.select(video, "q", 0, None) == []


@pytest.mark.parametrize("compat", ["safe", "upstream"])
def test_answers_that_are_all_alike_give_even_frames(compat: str) -> None:
    video = make_video(200)
    focus = sampler(ConstantScorer(), oracle="model", compat=compat)
    noted = focus.select_with_note(video, "q", 8, None)
    assert noted.indices == uniform(video, 8)
    assert noted.note is not None
    assert noted.note.endswith("all alike: evenly spread")


@pytest.mark.parametrize("compat", ["safe", "upstream"])
@pytest.mark.parametrize("kind", ["constant", "nan", "no query"])
def test_the_fallback_is_uniform(compat: str, kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    noted = sampler(compat=compat).select_with_note(video, query, 7, None)
    assert noted.indices == uniform(video, 7)
    assert noted.note is not None
    assert noted.note.endswith("evenly spread")


def test_the_draw_depends_on_video_question_budget_and_seed() -> None:
    scores = np.random.default_rng(1).random(500)
    video = scored_video(scores)
    first = sampler().select(video, "q", 20, None)
    assert sampler().select(video, "q", 20, None) == first
    assert sampler(seed=1).select(video, "q", 20, None) != first
    assert sampler().select(video, "r", 20, None) != first
    assert sampler().select(scored_video(scores, "another"), "q", 20, None) != first


def test_shots_change_nothing() -> None:
    video = make_video(200, seed=7)
    shots = [Scene(0, 100), Scene(100, video.num_frames)]
    assert sampler().select(video, "q", 9, shots) == sampler().select(video, "q", 9, None)


def test_only_the_model_oracle_uses_a_scorer() -> None:
    assert FocusSampler.Options(oracle="model").uses_scorer
    assert not FocusSampler.Options().uses_scorer


@pytest.mark.parametrize(
    "bad",
    [
        {"max_calls": 7},
        {"clip_s": 0.0},
        {"zoom_ratio": 1.5},
        {"fine_fps": float("nan")},
        {"seed": -1},
    ],
)
def test_options_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionsError, match=next(iter(bad))):
        FocusSampler.Options(**bad)
