"""Who knows how relevant a row is: vectors at hand, or a model that is paid by the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from samplers.contract import (
    FrameScorer,
    IndexArray,
    ScorerUnavailableError,
    TimeArray,
    VideoHandle,
)
from samplers.model_scores import usable_answers
from samplers.selection import uniform_rows


class ScoreOracle(Protocol):
    """Relevance, row by row, of one question about one video."""

    def score(self, rows: IndexArray) -> TimeArray:
        """float64 `[len(rows)]`, 0..1, NaN where there is no answer. Never called without rows.

        Raises `ScorerUnavailableError` where no row has an answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class CachedOracle:
    """Cosines of the index, scaled to 0..1 over the video."""

    relevance: TimeArray
    """float64 `[C]`."""

    def score(self, rows: IndexArray) -> TimeArray:
        return self.relevance[rows]


@dataclass(frozen=True, slots=True)
class ModelOracle:
    """A vision-language model, one call a row."""

    scorer: FrameScorer
    video: VideoHandle
    query: str

    def score(self, rows: IndexArray) -> TimeArray:
        answers = self.scorer.score(self.video, self.query, rows.tolist())
        return usable_answers(answers, len(rows)).clip(0.0, 1.0)


class Answers:
    """What an oracle has said so far: asks about a row once, and about `limit` rows at most."""

    def __init__(self, oracle: ScoreOracle, num_rows: int, limit: int) -> None:
        self._oracle = oracle
        self._limit = limit
        self.relevance: TimeArray = np.full(num_rows, np.nan)
        """float64 `[C]`, NaN where nothing is known."""
        self.is_asked = np.zeros(num_rows, dtype=np.bool_)

    @property
    def num_asked(self) -> int:
        return int(np.count_nonzero(self.is_asked))

    @property
    def num_left(self) -> int:
        return self._limit - self.num_asked

    @property
    def num_unanswered(self) -> int:
        return self.num_asked - len(self.known_rows)

    @property
    def known_rows(self) -> IndexArray:
        """int64, ascending: rows with an answer."""
        return np.flatnonzero(~np.isnan(self.relevance))

    def ask(self, rows: IndexArray) -> None:
        """Ask, in one batch, about those of `rows` that are new; beyond the limit, evenly thinned.

        An oracle that fails leaves `rows` without answers. Raises `ScorerUnavailableError` only
        where nothing at all is known then: earlier answers are paid for, and good.
        """
        is_wanted = np.zeros(len(self.is_asked), dtype=np.bool_)
        is_wanted[rows] = True
        fresh = np.flatnonzero(is_wanted & ~self.is_asked)
        fresh = fresh[uniform_rows(len(fresh), min(len(fresh), self.num_left))]
        if len(fresh):
            self.is_asked[fresh] = True
            try:
                self.relevance[fresh] = self._oracle.score(fresh)
            except ScorerUnavailableError:
                if len(self.known_rows) == 0:
                    raise
