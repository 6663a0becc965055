"""`gift`: relevant frames that no more relevant frame resembles.

Global irreplaceability frame targeting (Zheng et al., CVPR 2026, arXiv 2603.25072): a frame counts
as its relevance times its distance to the nearest frame that is more relevant. Written from the
formula; no code has been published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from samplers.contract import (
    FloatArray,
    FrameScorer,
    IndexArray,
    NotedSelection,
    SamplerOptions,
    Scene,
    VideoHandle,
)
from samplers.maxvol import maxvol_rows
from samplers.options import check_ranges
from samplers.selection import (
    RealArray,
    finalise,
    finite_embeddings,
    min_max_scaled,
    num_wanted,
    top_rows,
    uniform_rows,
    usable_scores,
)

FARTHEST = 4.0
"""Squared distance of opposite unit vectors: what counts for a row that no row left is better than.
It is the first of its round with any number as large."""

LEAST_DISTANCE = 1e-5
"""Squared distances below this are the rounding of equal pictures, which must not rank rows."""

MOST_ROUNDS = 16
"""Large budgets take more rows a round instead of more rounds, each of which costs time."""

BLOCK_ROWS = 256


def gift_rows(
    relevance: RealArray, embeddings: FloatArray, count: int, round_size: int = 9
) -> IndexArray:
    """int64, ascending: `count` rows by relevance x distance to the nearest more relevant row.

    `round_size` rows are taken at a time; then they no longer count as anyone's nearest, so that
    later rounds come back to what surrounds them. `relevance` is `[C]`, 0..1; `embeddings` float32
    `[C, D]`, unit vectors. Of equally relevant rows the earlier one is better; of equal worth the
    better one is taken. All rows when `count` >= C. O(C^2 D) time, O(C) memory beside a copy of
    the embeddings.
    """
    if count >= len(relevance):
        return np.arange(len(relevance), dtype=np.int64)
    order = np.argsort(-relevance, kind="stable")
    ranked = relevance[order].astype(np.float64)
    nearest = _NearestBetter(embeddings[order])
    size = max(round_size, -(-count // MOST_ROUNDS))
    left = count
    while left > 0:
        worth = np.where(nearest.is_taken, -1.0, ranked * nearest.distances())
        nearest.take(top_rows(worth, min(size, left)))
        left -= size
    return np.sort(order[nearest.is_taken])


def relevant_and_even_rows(scores: RealArray, count: int) -> IndexArray:
    """int64, ascending: `count` rows, one half evenly spread, the other the best of the rest."""
    if count >= len(scores):
        return np.arange(len(scores), dtype=np.int64)
    ranked = scores.astype(np.float64)
    ranked[uniform_rows(len(scores), count // 2)] = np.inf
    return top_rows(ranked, count)


class _NearestBetter:
    """For every row the nearest one among those before it that are not taken.

    Taking rows makes only those stale whose nearest was taken; only they are compared again.
    """

    def __init__(self, ranked: FloatArray) -> None:
        self._ranked = ranked
        self._squared_norms = np.einsum("ij,ij->i", ranked, ranked)
        self._nearest = np.zeros(len(ranked), dtype=np.int64)
        self._distances = np.zeros(len(ranked))
        self._stale = np.arange(len(ranked))
        self.is_taken = np.zeros(len(ranked), dtype=np.bool_)

    def take(self, rows: IndexArray) -> None:
        self.is_taken[rows] = True
        self._stale = np.flatnonzero(self.is_taken[self._nearest] & ~self.is_taken)

    def distances(self) -> RealArray:
        """float64 `[C]`, squared; of taken rows, what they were."""
        for start in range(0, len(self._stale), BLOCK_ROWS):
            self._compare(self._stale[start : start + BLOCK_ROWS])
        return self._distances

    def _compare(self, rows: IndexArray) -> None:
        """Find the nearest of ascending `rows`, with one product of `[len(rows), C]` at most."""
        first, end = int(rows[0]), int(rows[-1]) + 1
        # |a - b|^2 = |a|^2 - 2 (a.b - |b|^2 / 2): the largest in brackets is the nearest.
        closeness = self._ranked[rows] @ self._ranked[:end].T
        closeness -= self._squared_norms[:end] / 2
        closeness[:, self.is_taken[:end]] = -np.inf
        closeness[:, first:][np.arange(first, end) >= rows[:, None]] = -np.inf
        nearest = closeness.argmax(axis=1)
        largest = closeness[np.arange(len(rows)), nearest].astype(np.float64)
        distances = self._squared_norms[rows] - 2 * largest
        distances[distances < LEAST_DISTANCE] = 0.0
        self._nearest[rows] = nearest
        self._distances[rows] = np.minimum(distances, FARTHEST)


@dataclass(frozen=True, slots=True)
class GiftSampler:
    """Irreplaceable frames: relevant, and far from every frame that is more relevant."""

    id: ClassVar[str] = "gift"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How many frames are taken at a time, and among how many candidates."""

        round_size: int = field(
            default=9,
            metadata={
                "doc": "frames taken before distances are measured again without them, 1 to 512; "
                "more where the budget would need over 16 rounds"
            },
        )
        most_rows: int = field(
            default=1024,
            metadata={
                "doc": "above this many candidates only so many are compared: one half evenly "
                "spread, the other those with the highest scores; 64 to 20000"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(self, round_size=(1, 512), most_rows=(64, 20_000))

    options: Options
    encoder: str = field(kw_only=True)
    scorer: FrameScorer | None = field(default=None, kw_only=True)

    def select(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> list[int]:
        """Exactly `min(budget, C)` frame indices; `maxvol` rows without a query or usable scores.

        Raises `FeaturesMissingError`.
        """
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """As `select`; the note says how many candidates were compared."""
        del scenes
        wanted = num_wanted(video, budget)
        if wanted in (0, len(video.candidates)):
            return NotedSelection(finalise([], video, budget))
        scores = usable_scores(video, self.encoder, query)
        embeddings = video.image_embeddings(self.encoder)
        if scores is None:
            rows = maxvol_rows(embeddings, wanted)
            return NotedSelection(finalise(rows, video, budget), "no usable scores: maxvol")
        rows = relevant_and_even_rows(scores, self.options.most_rows)
        compared = finite_embeddings(embeddings[rows])
        relevance = min_max_scaled(scores)[rows]
        chosen = gift_rows(relevance, compared, wanted, self.options.round_size)
        note = f"{len(rows)} of {len(scores)} candidates compared"
        return NotedSelection(finalise(rows[chosen], video, budget, scores), note)
