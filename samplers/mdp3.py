"""`mdp3`: a determinantal choice conditioned on the question (MDP3, ICCV 2025, arXiv 2501.02885).

Chooses frames greedily by how near they are to the question and how much they differ from each
other, both under a mixture of Gaussian kernels; with segments, a dynamic programme decides how many
frames each stretch of the video gets. Written from the formulas; the authors' code is Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from samplers.contract import (
    FloatArray,
    FrameScorer,
    IndexArray,
    InvalidOptionsError,
    SamplerOptions,
    Scene,
    VideoHandle,
)
from samplers.logdet import (
    MOST_PICKS,
    LogDetObjective,
    compared_rows,
    greedy_rows,
    inner_products,
    squared_norms,
    taken_rows,
)
from samplers.options import check_ranges
from samplers.segment_programme import MOST_SEGMENT_PICKS, segment_compared_rows, segmented_rows
from samplers.selection import RealArray, finalise, num_wanted, usable_scores

NUM_GAUSSIANS = 5
JITTER = 1e-5
"""Added to the kernel's diagonal (5), above what products of single precision leave in doubt."""
ONE_SEGMENT = -1


def multi_gaussian(squared_distances: RealArray) -> RealArray:
    """`sum over a in 2^-3 .. 2^1 of exp(-d / 2a)` of squared distances; 5 at 0, any shape."""
    # Each narrower Gaussian is the square of the one before.
    gaussian = np.exp(np.maximum(squared_distances, 0.0) * -0.25)
    total = gaussian.copy()
    for _ in range(NUM_GAUSSIANS - 1):
        gaussian = gaussian * gaussian
        total += gaussian
    return total


@dataclass(frozen=True, slots=True, eq=False)
class MultiGaussianKernel:
    """The mixture of Gaussians between embeddings `[N, D]`."""

    embeddings: RealArray
    norms: RealArray
    """`[N]`, squared."""

    @classmethod
    def of(cls, embeddings: RealArray) -> MultiGaussianKernel:
        return cls(embeddings, squared_norms(embeddings))

    def diagonal(self) -> RealArray:
        return np.where(np.isfinite(self.norms), float(NUM_GAUSSIANS), np.nan)

    def columns(self, rows: Sequence[int]) -> RealArray:
        products = inner_products(self.embeddings, rows)
        return multi_gaussian(self.norms[list(rows), np.newaxis] + self.norms - 2 * products)

    def restricted(self, rows: IndexArray) -> MultiGaussianKernel:
        return MultiGaussianKernel(self.embeddings[rows], self.norms[rows])

    def block(self, rows: IndexArray, columns: IndexArray) -> RealArray:
        """`[len(rows), len(columns)]`."""
        products = self.embeddings[rows] @ self.embeddings[columns].T
        return multi_gaussian(self.norms[rows, np.newaxis] + self.norms[columns] - 2 * products)


def question_bonus(scores: RealArray, relevance_lambda: float) -> RealArray:
    """float64 `[C]`, `(2 / lambda) ln k(q, f)`: what a frame's nearness to the question is worth.

    `scores` are cosines `[C]` of unit vectors.
    """
    likeness = multi_gaussian(2 - 2 * scores.astype(np.float64))
    return 2 / relevance_lambda * np.log(likeness)


@dataclass(frozen=True, slots=True)
class Mdp3Sampler:
    """Frames near the question and unlike each other, under a mixture of Gaussian kernels."""

    id: ClassVar[str] = "mdp3"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """Relevance against diversity, and whether the video is taken segment by segment."""

        relevance_lambda: float = field(
            default=0.2,
            metadata={
                "doc": "nearness to the question counts 2 / this: higher is more diverse, 0.001 to "
                "1000"
            },
        )
        segment_size: int = field(
            default=32,
            metadata={
                "doc": "candidates per segment, 2 to 512: frames must differ from those of their "
                "segment and the last one before it; -1: one segment, from all others"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(self, relevance_lambda=(0.001, 1000))
            if self.segment_size != ONE_SEGMENT and not 2 <= self.segment_size <= 512:
                raise InvalidOptionsError(
                    f"option 'segment_size' must be -1 or lie in 2..512, not {self.segment_size}"
                )

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
        """Exactly `min(budget, C)` frame indices; diversity alone without a query or usable scores.

        Raises `FeaturesMissingError`.
        """
        del scenes
        wanted = num_wanted(video, budget)
        if wanted in (0, len(video.candidates)):
            return finalise([], video, budget)
        scores = usable_scores(video, self.encoder, query)
        embeddings = video.image_embeddings(self.encoder)
        is_segmented = self.options.segment_size != ONE_SEGMENT and wanted <= MOST_SEGMENT_PICKS
        rows = (self._by_segments if is_segmented else self._at_once)(embeddings, scores, wanted)
        return finalise(rows, video, budget, scores)

    def _at_once(
        self, embeddings: FloatArray, scores: FloatArray | None, wanted: int
    ) -> IndexArray:
        count = min(wanted, MOST_PICKS)
        compared = compared_rows(scores, len(embeddings), count, embeddings.shape[1])
        kernel = MultiGaussianKernel.of(taken_rows(embeddings, compared))
        bonus = self._bonus(scores, compared)
        first = len(compared) // 2 if scores is None else None
        return compared[greedy_rows(LogDetObjective(kernel, bonus, 1.0, JITTER), count, first)]

    def _by_segments(
        self, embeddings: FloatArray, scores: FloatArray | None, wanted: int
    ) -> IndexArray:
        size = self.options.segment_size
        compared = segment_compared_rows(scores, len(embeddings), wanted, size)
        kernel = MultiGaussianKernel.of(taken_rows(embeddings, compared))
        bonus = self._bonus(scores, compared)
        return compared[segmented_rows(kernel, bonus, wanted, size, JITTER)]

    def _bonus(self, scores: FloatArray | None, compared: IndexArray) -> RealArray:
        if scores is None:
            return np.zeros(len(compared))
        return question_bonus(scores[compared], self.options.relevance_lambda)
