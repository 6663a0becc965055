from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from samplers.contract import (
    FloatArray,
    FrameScorer,
    InvalidOptionsError,
    ScorerUnavailableError,
    TimeArray,
    VideoHandle,
    check_selection,
)
from samplers.m_llm import MLlmSampler
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
class GivenAnswers(FailingScorer):
    """p(yes) of every row, as given."""

    answers: FloatArray

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        return self.answers[list(rows)]


def sampler(scorer: FrameScorer | None, num_asked: int = 64) -> MLlmSampler:
    options = MLlmSampler.Options(num_asked=num_asked)
    return MLlmSampler(options, encoder="default", scorer=scorer)


def rows_of(video: InMemoryVideo, indices: list[int]) -> list[int]:
    rows: list[int] = np.searchsorted(video.candidates, indices).tolist()
    return rows


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


def test_it_keeps_the_contract_with_few_questions() -> None:
    check_sampler(MLlmSampler, MLlmSampler.Options(num_asked=5))


@pytest.mark.parametrize("budget", [1, 4, 16, 63])
def test_it_asks_about_as_many_frames_as_the_option_says(video: InMemoryVideo, budget: int) -> None:
    scorer = CountingScorer(InMemoryScorer())
    noted = sampler(scorer).select_with_note(video, "q", budget, None)
    assert scorer.sizes == [64]
    assert noted.note == "asked about 64 of 300 candidates, 64 answered"
    check_selection(noted.indices, video, budget, fills_budget=True)


def test_a_video_with_fewer_candidates_gets_fewer_questions() -> None:
    scorer = CountingScorer(InMemoryScorer())
    sampler(scorer).select(make_video(20), "q", 5, None)
    assert scorer.sizes == [20]


def test_the_model_decides_not_the_cosine() -> None:
    rng = np.random.default_rng(0)
    answers = np.full(200, 0.1, dtype=np.float32)
    answers[[30, 90, 150]] = [0.7, 0.9, 0.8]
    scores = rng.random(200)
    scores[[30, 90, 150]] += 1
    video = even_video(200, scores)
    assert rows_of(video, sampler(GivenAnswers(answers)).select(video, "q", 3, None)) == [
        30,
        90,
        150,
    ]


def test_neighbours_of_a_pick_are_passed_over() -> None:
    answers = np.linspace(0.1, 0.2, 64, dtype=np.float32)
    answers[[20, 22, 24, 25, 50]] = [0.9, 0.8, 0.85, 0.7, 0.5]
    video = even_video(64, np.linspace(0, 1, 64))
    # Within 64 / (4 * 4) = 4 positions of row 20 lie 22 and 24; row 25 does not.
    picks = rows_of(video, sampler(GivenAnswers(answers)).select(video, "q", 4, None))
    assert picks == [20, 25, 50, 63]


def test_what_the_model_left_out_goes_by_its_cosine() -> None:
    answers = np.full(64, 0.2, dtype=np.float32)
    answers[:32] = 0.8
    answers[40] = np.nan
    scores = np.linspace(0.0, 0.5, 64)
    scores[40] = 1.0
    video = even_video(64, scores)
    noted = sampler(GivenAnswers(answers)).select_with_note(video, "q", 1, None)
    assert rows_of(video, noted.indices) == [40]
    assert noted.note == "asked about 64 of 64 candidates, 63 answered"


def test_equal_answers_leave_the_order_to_the_cosine() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random(64)
    video = even_video(64, scores)
    answers = np.full(64, 0.5, dtype=np.float32)
    picks = rows_of(video, sampler(GivenAnswers(answers)).select(video, "q", 1, None))
    assert picks == [int(scores.argmax())]


def test_the_note_counts_the_answers(video: InMemoryVideo) -> None:
    noted = sampler(RareScorer(InMemoryScorer())).select_with_note(video, "q", 8, None)
    assert noted.note == "asked about 64 of 300 candidates, 22 answered"


@pytest.mark.parametrize("budget", [64, 65, 299])
def test_a_budget_that_takes_all_it_would_ask_about_asks_nothing(
    video: InMemoryVideo, budget: int
) -> None:
    noted = sampler(FailingScorer()).select_with_note(video, "q", budget, None)
    check_selection(noted.indices, video, budget, fills_budget=True)
    assert noted.note == ALL_TAKEN_NOTE


@pytest.mark.parametrize("budget", [0, 300, 3000])
def test_nothing_to_choose_asks_nothing(video: InMemoryVideo, budget: int) -> None:
    indices = sampler(FailingScorer()).select(video, "q", budget, None)
    assert indices == (video.candidates.tolist() if budget else [])


@pytest.mark.parametrize("kind", ["no query", "constant", "nan"])
def test_the_fallback_is_uniform_and_asks_nothing(kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    noted = sampler(FailingScorer()).select_with_note(video, query, 7, None)
    uniform = UniformSampler(UniformSampler.Options(), encoder="default")
    assert noted.indices == uniform.select(video, None, 7, None)
    assert noted.note is not None
    assert noted.note.startswith("model not asked")


@pytest.mark.parametrize("scorer", [None, FailingScorer()])
def test_a_model_that_cannot_be_asked_is_reported_as_such(
    video: InMemoryVideo, scorer: FrameScorer | None
) -> None:
    with pytest.raises(ScorerUnavailableError):
        sampler(scorer).select(video, "q", 4, None)


def test_a_model_that_answers_nothing_is_unavailable(video: InMemoryVideo) -> None:
    silent = GivenAnswers(np.full(300, np.nan, dtype=np.float32))
    with pytest.raises(ScorerUnavailableError):
        sampler(silent).select(video, "q", 4, None)


@pytest.mark.parametrize("num_asked", [1, 0, 257])
def test_more_questions_than_the_bound_are_refused(num_asked: int) -> None:
    with pytest.raises(InvalidOptionsError, match="num_asked"):
        MLlmSampler.Options(num_asked=num_asked)


@pytest.mark.parametrize("num_asked", [2, 256])
def test_the_bound_itself_is_allowed(num_asked: int) -> None:
    assert MLlmSampler.Options(num_asked=num_asked).num_asked == num_asked
