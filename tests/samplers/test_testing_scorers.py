from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest

from samplers.contract import (
    ContractViolationError,
    FrameScorer,
    SamplerOptions,
    Scene,
    ScorerUnavailableError,
    VideoHandle,
)
from samplers.selection import finalise
from samplers.testing import (
    ConstantScorer,
    CountingScorer,
    FailingScorer,
    InMemoryScorer,
    MalformedScorer,
    RareScorer,
    check_sampler,
    make_video,
    selection_digest,
)


@dataclass(frozen=True)
class Mutant:
    """A correct sampler that asks a model; every subclass below breaks one rule."""

    id: ClassVar[str] = "mutant"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class Options(SamplerOptions):
        """None."""

        @property
        def uses_scorer(self) -> bool:
            return True

    options: Options
    encoder: str = field(kw_only=True)
    scorer: FrameScorer | None = field(default=None, kw_only=True)

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        asked = range(min(8, len(video.candidates)))
        if query is None or not asked:
            return finalise([], video, budget)
        if self.scorer is None:
            raise ScorerUnavailableError("none")
        return finalise(self.rows(video, query, list(asked)), video, budget)

    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        helpful: list[int] = np.flatnonzero(self.scored(video, query, asked) > 0.5).tolist()
        return helpful

    def scored(
        self, video: VideoHandle, query: str, asked: Sequence[int]
    ) -> np.typing.NDArray[np.float32]:
        assert self.scorer is not None
        return self.scorer.score(video, query, asked)


class AsksWithoutAQuery(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        return super().select(video, query or "what is this?", budget, scenes)


class AsksAboutNumpyRows(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        return super().rows(video, query, list(np.array(asked)))


class AsksTwice(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        return super().rows(video, query, asked + asked)


class AsksBeyondTheCandidates(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        return super().rows(video, query, [len(video.candidates)])


class AsksAboutNothing(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        return super().rows(video, query, [])


class TripsOverAMissingAnswer(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        return [int(answer * 10) for answer in self.scored(video, query, asked)]


class DividesByTheSpread(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        scored = np.nan_to_num(self.scored(video, query, asked))
        return [int(1 / float(scored.max() - scored.min()))] if len(scored) > 1 else []


class TrustsTheText(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        assert self.scorer is not None
        return list(json.loads(self.scorer.rate_ranges(video, query, asked)).values())


class TripsWithoutAScorer(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        if query is not None and len(video.candidates):
            self.scored(video, query, [0])
        return finalise([], video, budget)


class TranslatesTheFailure(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        try:
            return super().rows(video, query, asked)
        except ScorerUnavailableError as exc:
            raise TimeoutError from exc


class IsUnavailableItself(Mutant):
    def rows(self, video: VideoHandle, query: str, asked: list[int]) -> list[int]:
        raise ScorerUnavailableError("too busy, says the sampler")


@dataclass(frozen=True)
class KeepsItQuiet(Mutant):
    """Asks a model where it has one, and says it uses none."""

    @dataclass(frozen=True, kw_only=True)
    class Options(SamplerOptions):
        """None."""

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        if self.scorer is None:
            return finalise([], video, budget)
        return super().select(video, query, budget, scenes)


REFUSED = {
    AsksWithoutAQuery: "asked without a query",
    AsksAboutNumpyRows: "Python ints",
    AsksTwice: "each once",
    AsksBeyondTheCandidates: "rows 0..C-1",
    AsksAboutNothing: "some rows",
    TripsOverAMissingAnswer: "cannot convert float NaN.*rare scorer",
    DividesByTheSpread: "ZeroDivisionError",
    TrustsTheText: "JSONDecodeError",
    TripsWithoutAScorer: r"AssertionError(?s:.*)no scorer",
    TranslatesTheFailure: "TimeoutError.*no scorer",
    IsUnavailableItself: "features are there",
    KeepsItQuiet: "uses_scorer is False",
}


def test_the_unspoilt_sampler_passes() -> None:
    check_sampler(Mutant)


@pytest.mark.parametrize("mutant", list(REFUSED), ids=lambda mutant: mutant.__name__)
def test_a_sampler_that_breaks_a_rule_about_scorers_is_refused(mutant: type[Mutant]) -> None:
    with pytest.raises(ContractViolationError, match=REFUSED[mutant]):
        check_sampler(mutant)


def test_the_author_s_own_scorer_is_used() -> None:
    scorer = CountingScorer(InMemoryScorer())
    check_sampler(Mutant, scorer=scorer)
    assert scorer.num_questions > 0


def test_a_digest_of_selections_needs_no_scorer_given() -> None:
    assert selection_digest(Mutant) == selection_digest(Mutant, scorer=InMemoryScorer())
    assert selection_digest(Mutant) != selection_digest(Mutant, scorer=MalformedScorer())


def test_a_frame_nearer_to_the_query_scores_higher() -> None:
    video = make_video(30)
    answers = InMemoryScorer().score(video, "q", list(range(30)))
    assert answers.dtype == np.float32
    assert np.argsort(answers).tolist() == np.argsort(video.scores("default", "q")).tolist()
    assert ((answers > 0) & (answers < 1)).all()


def test_a_set_scores_as_its_best_frame() -> None:
    video = make_video(30)
    single = InMemoryScorer().score(video, "q", [4, 9, 20])
    sets = InMemoryScorer().score_sets(video, "q", [[4, 9], [20]])
    np.testing.assert_allclose(sets, [single[:2].max(), single[2]], rtol=1e-6)


def test_ratings_cover_every_frame_in_ranges() -> None:
    video = make_video(60)
    ratings = json.loads(InMemoryScorer().rate_ranges(video, "q", list(range(10, 50))))
    ends = [[int(number) for number in key.split("-")] for key in ratings]
    assert (ends[0][0], ends[-1][-1]) == (1, 40)
    assert all(after[0] == before[-1] + 1 for before, after in pairwise(ends))
    assert set(ratings.values()) <= {1, 2, 3, 4, 5}


def test_rows_without_a_vector_are_scored_too() -> None:
    video = make_video(30, embedding_kind="nan-rows")
    assert np.isfinite(InMemoryScorer().score(video, "q", list(range(30)))).all()


def test_pictures_that_are_not_finite_are_answered_like_any_other() -> None:
    video = make_video(30, embedding_kind="infinite-rows")
    embeddings = video.image_embeddings("default")
    assert embeddings[[0, 1, 5, 6], 0].tolist() == [np.inf, -np.inf, np.inf, -np.inf]
    assert np.isinf(embeddings).sum() == 12
    answers = InMemoryScorer().score(video, "q", list(range(30)))
    assert np.isfinite(answers).all()


def test_the_awkward_scorers_answer_as_they_say() -> None:
    video, rows = make_video(30), list(range(9))
    rare, constant = RareScorer(InMemoryScorer()), ConstantScorer()
    assert np.isnan(rare.score(video, "q", rows)).sum() == 6
    assert np.isnan(rare.score_sets(video, "q", [[0], [1], [2]])).tolist() == [False, True, True]
    assert (
        InMemoryScorer()
        .rate_ranges(video, "q", rows)
        .startswith(rare.rate_ranges(video, "q", rows))
    )
    assert len(set(constant.score(video, "q", rows).tolist())) == 1
    assert constant.rate_ranges(video, "q", rows) == '{"1-9": 3}'
    assert not MalformedScorer().score_sets(video, "q", [[0]]).any()
    for ask in (FailingScorer().score, FailingScorer().rate_ranges):
        with pytest.raises(ScorerUnavailableError):
            ask(video, "q", rows)
    with pytest.raises(ScorerUnavailableError):
        FailingScorer().score_sets(video, "q", [rows])


def test_questions_are_counted() -> None:
    video, scorer = make_video(30), CountingScorer(InMemoryScorer())
    scorer.score(video, "q", [0, 1, 2])
    scorer.score_sets(video, "q", [[0, 1], [2]])
    scorer.rate_ranges(video, "q", [0, 1, 2])
    assert (scorer.sizes, scorer.num_questions) == ([3, 2, 1], 6)
