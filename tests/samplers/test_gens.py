from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samplers.aks import AksSampler
from samplers.contract import (
    FrameScorer,
    InvalidOptionsError,
    ScorerUnavailableError,
    VideoHandle,
    check_selection,
)
from samplers.gens import GensSampler, best_rated
from samplers.testing import (
    CountingScorer,
    FailingScorer,
    InMemoryScorer,
    InMemoryVideo,
    check_sampler,
    make_video,
)

NAN = np.nan


@dataclass(frozen=True)
class GivenText(FailingScorer):
    """Writes one text, and remembers which rows it was shown."""

    text: str
    shown: list[list[int]] = field(default_factory=list)

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        self.shown.append(list(rows))
        return self.text


def sampler(scorer: FrameScorer | None, **options: Any) -> GensSampler:
    return GensSampler(GensSampler.Options(**options), encoder="default", scorer=scorer)


def aks_indices(video: InMemoryVideo, query: str | None, budget: int) -> list[int]:
    aks = AksSampler(AksSampler.Options(), encoder="default")
    return aks.select(video, query, budget, None)


@pytest.fixture
def video() -> InMemoryVideo:
    return make_video(400, seed=12)


@pytest.mark.parametrize("ties", ["spread", "first"])
def test_it_keeps_the_contract_with_few_frames_shown(ties: str) -> None:
    check_sampler(GensSampler, sampler(None, num_shown=6, ties=ties).options)


def test_the_most_similar_frames_are_shown_once_in_order_of_time(video: InMemoryVideo) -> None:
    scorer = GivenText('{"1": 5}')
    noted = sampler(scorer).select_with_note(video, "q", 8, None)
    best = np.argsort(-video.scores("default", "q"), kind="stable")[:256]
    assert scorer.shown == [sorted(best.tolist())]
    assert noted.note == "shown 256 of 400 candidates in one call, 1 rated"


def test_numbers_are_those_of_the_frames_shown(video: InMemoryVideo) -> None:
    scorer = GivenText('{"11-12": 5, "33": 2}')
    indices = sampler(scorer, num_shown=40).select(video, "q", 8, None)
    shown = scorer.shown[0]
    assert indices == video.candidates[[shown[10], shown[11], shown[32]]].tolist()


def test_the_best_rated_fill_the_budget(video: InMemoryVideo) -> None:
    scorer = GivenText('{"1-4": 2, "3-6": 5, "20": 4, "21": 3}')
    indices = sampler(scorer, num_shown=40).select(video, "q", 6, None)
    shown = np.array(scorer.shown[0])
    assert indices == video.candidates[shown[[2, 3, 4, 5, 19, 20]]].tolist()


def test_equally_rated_frames_are_thinned_evenly(video: InMemoryVideo) -> None:
    scorer = GivenText('{"1-40": 4, "7": 5}')
    indices = sampler(scorer, num_shown=40).select(video, "q", 4, None)
    shown = np.array(scorer.shown[0])
    # 39 frames rate 4: numbers 1 to 6 and 8 to 40. The middles of three bins are 7, 20 and 33.
    assert indices == video.candidates[shown[[6, 7, 20, 33]]].tolist()


def test_the_earliest_of_equally_rated_frames_are_taken_on_request(video: InMemoryVideo) -> None:
    scorer = GivenText('{"1-40": 4, "7": 5}')
    indices = sampler(scorer, num_shown=40, ties="first").select(video, "q", 4, None)
    assert indices == video.candidates[np.array(scorer.shown[0])[[0, 1, 2, 6]]].tolist()


@given(
    st.lists(st.sampled_from([NAN, 1.0, 2.0, 5.0]), max_size=40),
    st.integers(1, 45),
    st.sampled_from(["spread", "first"]),
)
def test_no_frame_left_out_is_rated_better_than_one_taken(
    ratings: list[float], count: int, ties: Any
) -> None:
    given_ratings = np.array(ratings, dtype=np.float64)
    rows = best_rated(given_ratings, count, ties).tolist()
    rated = [row for row, rating in enumerate(ratings) if not np.isnan(rating)]
    assert len(rows) == len(set(rows)) == min(count, len(rated))
    assert rows == sorted(rows)
    left = set(rated) - set(rows)
    assert all(ratings[out] <= min(ratings[row] for row in rows) for out in left)
    if ties == "first":
        assert rows == sorted(sorted(rated, key=lambda row: (-ratings[row], row))[:count])


@pytest.mark.parametrize("budget", [1, 2, 16, 255, 399])
def test_it_asks_once_whatever_the_budget(video: InMemoryVideo, budget: int) -> None:
    scorer = CountingScorer(InMemoryScorer())
    indices = sampler(scorer).select(video, "q", budget, None)
    check_selection(indices, video, budget, fills_budget=False)
    assert scorer.num_questions == 1


def test_fewer_frames_than_the_budget_are_returned_where_fewer_are_rated(
    video: InMemoryVideo,
) -> None:
    assert len(sampler(GivenText('{"11-12": 5}')).select(video, "q", 16, None)) == 2


@pytest.mark.parametrize("text", ["", "I see a cat.", '{"300-400": 5, "0": 5}', '{"1": 0}'])
def test_a_text_without_a_rating_leads_to_aks_and_a_note(video: InMemoryVideo, text: str) -> None:
    noted = sampler(GivenText(text)).select_with_note(video, "q", 16, None)
    assert noted.indices == aks_indices(video, "q", 16)
    assert noted.note == "shown 256 of 400 candidates in one call; no rating understood, so by aks"


@pytest.mark.parametrize("kind", ["no query", "constant", "nan"])
def test_without_a_ranking_the_fallback_is_that_of_aks_and_nothing_is_asked(kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    noted = sampler(FailingScorer()).select_with_note(video, query, 7, None)
    assert noted.indices == aks_indices(video, query, 7)
    assert noted.note is not None
    assert noted.note.startswith("model not asked")


@pytest.mark.parametrize("budget", [0, 400, 4000])
def test_nothing_to_choose_asks_nothing(video: InMemoryVideo, budget: int) -> None:
    indices = sampler(FailingScorer()).select(video, "q", budget, None)
    assert indices == (video.candidates.tolist() if budget else [])


@pytest.mark.parametrize("scorer", [None, FailingScorer()])
def test_a_model_that_cannot_be_asked_is_reported_as_such(
    video: InMemoryVideo, scorer: FrameScorer | None
) -> None:
    with pytest.raises(ScorerUnavailableError):
        sampler(scorer).select(video, "q", 4, None)


@pytest.mark.parametrize("num_shown", [1, 257])
def test_more_frames_than_the_bound_are_refused(num_shown: int) -> None:
    with pytest.raises(InvalidOptionsError, match="num_shown"):
        GensSampler.Options(num_shown=num_shown)


@pytest.mark.parametrize("num_shown", [2, 256])
def test_the_bound_itself_is_allowed(num_shown: int) -> None:
    assert GensSampler.Options(num_shown=num_shown).num_shown == num_shown
