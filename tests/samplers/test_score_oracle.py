from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

from samplers.contract import (
    FloatArray,
    ScorerUnavailableError,
    VideoHandle,
    check_selection,
)
from samplers.focus import FocusSampler
from samplers.score_oracle import Answers, CachedOracle, ModelOracle
from samplers.testing import FailingScorer, InMemoryVideo, make_video

Outage = Literal["raises", "answers nothing"]


@dataclass(frozen=True)
class OnceAnsweringScorer(FailingScorer):
    """Good answers to the first batch; then the model is away, or says nothing usable."""

    outage: Outage
    sizes: list[int] = field(default_factory=list)

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        self.sizes.append(len(rows))
        if len(self.sizes) == 1:
            return np.linspace(0, 1, len(rows), dtype=np.float32)
        if self.outage == "raises":
            raise ScorerUnavailableError("the model is away")
        return np.full(len(rows), np.nan, dtype=np.float32)


@dataclass(frozen=True)
class WrongScorer(FailingScorer):
    """Answers two questions, whatever it is asked."""

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        return np.zeros(2, dtype=np.float32)


def video_of(num_rows: int) -> InMemoryVideo:
    times_s = np.arange(num_rows, dtype=np.float64) / 2
    embeddings = np.ones((num_rows, 2), dtype=np.float32)
    return InMemoryVideo("even", times_s, np.arange(num_rows), embeddings)


@pytest.mark.parametrize("outage", ["raises", "answers nothing"])
def test_answers_that_are_paid_for_outlive_a_failing_batch(outage: Outage) -> None:
    answers = Answers(ModelOracle(OnceAnsweringScorer(outage), video_of(9), "q"), 9, limit=9)
    answers.ask(np.array([1, 3, 5]))
    answers.ask(np.array([4, 6]))
    assert answers.known_rows.tolist() == [1, 3, 5]
    assert answers.relevance[[1, 3, 5]].tolist() == [0.0, 0.5, 1.0]
    # Asked, so not to be asked again.
    assert (answers.num_asked, answers.num_unanswered, answers.num_left) == (5, 2, 4)


def test_nothing_known_at_all_is_a_failing_model() -> None:
    answers = Answers(ModelOracle(FailingScorer(), video_of(9), "q"), 9, limit=9)
    with pytest.raises(ScorerUnavailableError, match="away"):
        answers.ask(np.array([1, 3]))


def test_answers_to_other_questions_are_none() -> None:
    answers = Answers(ModelOracle(WrongScorer(), video_of(9), "q"), 9, limit=9)
    with pytest.raises(ScorerUnavailableError, match=r"\(2,\) to 3 questions"):
        answers.ask(np.array([1, 3, 5]))


def test_cached_answers_leave_none_out() -> None:
    answers = Answers(CachedOracle(np.linspace(0, 1, 9)), 9, limit=9)
    answers.ask(np.array([1, 3]))
    assert answers.num_unanswered == 0


@pytest.mark.parametrize("compat", ["safe", "upstream"])
@pytest.mark.parametrize("outage", ["raises", "answers nothing"])
def test_focus_goes_on_with_its_first_look_when_the_closer_one_fails(
    compat: Literal["safe", "upstream"], outage: Outage
) -> None:
    video, scorer = video_of(65), OnceAnsweringScorer(outage)
    options = FocusSampler.Options(oracle="model", compat=compat)
    focus = FocusSampler(options, encoder="default", scorer=scorer)
    noted = focus.select_with_note(video, "q", 8, None)
    first, second = scorer.sizes
    check_selection(noted.indices, video, 8, fills_budget=True)
    assert noted.note is not None
    assert noted.note.startswith(f"the model was asked about {first + second} of 65 candidates")
    assert noted.note.endswith(f"were saved, {second} went unanswered")


def test_a_model_that_answers_everything_leaves_nothing_to_say() -> None:
    focus = FocusSampler(FocusSampler.Options(), encoder="default")
    note = focus.select_with_note(make_video(90), "q", 8, None).note
    assert note is not None
    assert "unanswered" not in note
