"""Scorers of the conformance kit: answers without a model, the same for the same question.

Import them from `samplers.testing`. One answers well; the others answer as models do on a bad day.
All of them refuse a call that no sampler should make.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from samplers.contract import (
    ContractViolationError,
    FloatArray,
    FrameScorer,
    ScorerUnavailableError,
    VideoHandle,
)
from samplers.testing_videos import made_query_vector

MALFORMED_TEXTS = (
    "",
    "I am sorry, I cannot see any frames.",
    "null",
    "{}",
    '{"1-2": 5, "3',
    "```json\n{'1 - 2': '5', \"2–1\": 4.5,}\n```\nHope that helps!",
    '{"0": 5, "-3": 5, "99999999999999999999": 5, "1e9-2e9": 5}',
    '{"1": null, "2": "very", "3": NaN, "4": []}',
    '[{"range": "2-1", "score": "5/5"}, {"score": 3}, 7, [[[]]]]',
    "[" * 5_000,
    '{"1":' * 2_000,
)


@dataclass(frozen=True, slots=True)
class InMemoryScorer:
    """Answers from the video's embeddings: a frame helps the more, the nearer it is to the query.

    A set is as good as its best frame; frames are rated 1 to 5 in equal steps of the same figure.
    """

    encoder: str = "default"

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        _check_rows(video, query, rows)
        return self._relevance(video, query, rows)

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        _check_sets(video, query, sets)
        best = [self._relevance(video, query, rows).max() for rows in sets]
        return np.array(best, dtype=np.float32)

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        _check_rows(video, query, rows)
        steps = np.floor(5 * self._relevance(video, query, rows)).clip(0, 4)
        numbered = enumerate((1 + steps.astype(int)).tolist(), start=1)
        ratings: dict[str, int] = {}
        for rating, run in groupby(numbered, key=lambda item: item[1]):
            first, *others = [number for number, _ in run]
            ratings[f"{first}-{others[-1]}" if others else str(first)] = rating
        return json.dumps(ratings)

    def _relevance(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        vectors = video.image_embeddings(self.encoder)[list(rows)]
        # A model reads the question itself: the video may lack the question's vector.
        cosines = np.nan_to_num(vectors, posinf=0.0, neginf=0.0) @ made_query_vector(
            query, vectors.shape[1]
        )
        relevance: FloatArray = 1 / (1 + np.exp(-4 * cosines))
        return relevance


@dataclass(frozen=True, slots=True)
class FailingScorer:
    """A model that cannot be reached."""

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        _check_rows(video, query, rows)
        raise ScorerUnavailableError("the model is away")

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        _check_sets(video, query, sets)
        raise ScorerUnavailableError("the model is away")

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        _check_rows(video, query, rows)
        raise ScorerUnavailableError("the model is away")


@dataclass(frozen=True, slots=True)
class RareScorer:
    """Leaves two answers of three out."""

    inner: FrameScorer

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        return _thinned(self.inner.score(video, query, rows))

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        return _thinned(self.inner.score_sets(video, query, sets))

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        """Cut off after a third."""
        text = self.inner.rate_ranges(video, query, rows)
        return text[: len(text) // 3]


@dataclass(frozen=True, slots=True)
class ConstantScorer:
    """Thinks the same of every frame."""

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        _check_rows(video, query, rows)
        return np.full(len(rows), 0.3, dtype=np.float32)

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        _check_sets(video, query, sets)
        return np.full(len(sets), 0.3, dtype=np.float32)

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        _check_rows(video, query, rows)
        return json.dumps({f"1-{len(rows)}": 3})


@dataclass(frozen=True, slots=True)
class MalformedScorer:
    """Says no to every frame and every set, and writes what is no JSON (`MALFORMED_TEXTS`)."""

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        _check_rows(video, query, rows)
        return np.zeros(len(rows), dtype=np.float32)

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        _check_sets(video, query, sets)
        return np.zeros(len(sets), dtype=np.float32)

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        _check_rows(video, query, rows)
        return MALFORMED_TEXTS[sum(rows) % len(MALFORMED_TEXTS)]


@dataclass(frozen=True, slots=True)
class CountingScorer:
    """Notes how many frames or sets each call asked about, and passes it on to `inner`."""

    inner: FrameScorer
    sizes: list[int] = field(default_factory=list)
    """One number a call; 1 for `rate_ranges`, which is one question."""

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        self.sizes.append(len(rows))
        return self.inner.score(video, query, rows)

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        self.sizes.append(len(sets))
        return self.inner.score_sets(video, query, sets)

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        self.sizes.append(1)
        return self.inner.rate_ranges(video, query, rows)

    @property
    def num_questions(self) -> int:
        """Calls of the model that a real client would have made."""
        return sum(self.sizes)


def awkward_scorers(encoder: str) -> Mapping[str, FrameScorer]:
    """Scorers that answer, though not as one would wish."""
    return {
        "rare": RareScorer(InMemoryScorer(encoder)),
        "constant": ConstantScorer(),
        "malformed": MalformedScorer(),
    }


def _thinned(answers: FloatArray) -> FloatArray:
    thinned = np.full_like(answers, np.nan)
    thinned[::3] = answers[::3]
    return thinned


def _check_rows(video: VideoHandle, query: str, rows: Sequence[int]) -> None:
    asked = f"(asked {query!r} of rows {list(rows)})"
    if any(type(row) is not int for row in rows):
        raise ContractViolationError(f"a scorer is asked about rows that are Python ints {asked}")
    if not rows or len(set(rows)) < len(rows):
        raise ContractViolationError(f"a scorer is asked about some rows, each once {asked}")
    if min(rows) < 0 or max(rows) >= len(video.candidates):
        raise ContractViolationError(f"a scorer is asked about rows 0..C-1 {asked}")


def _check_sets(video: VideoHandle, query: str, sets: Sequence[Sequence[int]]) -> None:
    if not sets:
        raise ContractViolationError(f"a scorer is asked about some sets (asked {query!r})")
    for rows in sets:
        _check_rows(video, query, rows)
