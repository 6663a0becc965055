"""`maxvol`: the frames whose embeddings span the largest volume. Needs no question.

Rectangular MaxVol (Mikhalev and Oseledets, arXiv 1502.07838; the square part Goreinov et al., *How
to find a good submatrix*, 2010) on the left singular vectors of the embeddings, which is how
MaxInfo (arXiv 2502.03183) chooses frames. Written from the mathematics.
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
    TimeArray,
    VideoHandle,
)
from samplers.options import check_ranges
from samplers.selection import finalise, finite_embeddings, num_wanted, uniform_rows

DEFAULT_RANK = 64
DEFAULT_MOST_ROWS = 4096

TOLERANCE = 1.05
"""What passes for 1: no swap multiplies the volume by more, no row is left out that has a larger
norm over the chosen ones. The usual value; at 1 the last digits decide."""

LEAST_SINGULAR_VALUE = 1e-3
"""Directions weaker than this share of the strongest are the noise of half-precision storage."""

FEWEST_COMPARED_ROWS = 256
MOST_PRODUCTS = 4_000_000_000
"""Multiplications of one selection, about 0.6 s of one CPU."""

OVERSAMPLING = 8
MOST_SWAPS = 500
"""Pivoted rows need almost none; a bound all the same, so that rounding can never loop."""


def maxvol_rows(
    embeddings: FloatArray,
    count: int,
    rank: int = DEFAULT_RANK,
    most_rows: int = DEFAULT_MOST_ROWS,
) -> IndexArray:
    """int64, ascending: up to `count` rows that best represent all others, for any sampler to use.

    `embeddings` is float32 `[C, D]`; rows that are not finite count as zero and are not chosen.
    First min(`rank`, `count`) rows of (locally) greatest volume in as many leading directions, then
    further ones while some row is badly represented. Fewer than `count` once every other row is a
    combination of the chosen ones with coefficients of norm 1: `finalise` then adds those furthest
    in time. Evenly spread rows when all embeddings point one way. Above `most_rows` rows, or where
    `MOST_PRODUCTS` allow fewer, that many evenly spread ones are compared. Of equal rows the
    earliest compared one stands for all. Time O(most_rows D rank), memory O(most_rows D).
    """
    num_rows = len(embeddings)
    if count >= num_rows:
        return np.arange(num_rows, dtype=np.int64)
    if count <= 0:
        return np.empty(0, dtype=np.int64)
    rank = min(rank, count)
    affordable = affordable_rows(count, rank, embeddings.shape[1])
    compared = uniform_rows(num_rows, min(num_rows, most_rows, affordable))
    taken = embeddings if len(compared) == num_rows else embeddings[compared]
    vectors = left_singular_vectors(finite_embeddings(taken), max(2, rank))
    if vectors.shape[1] < 2:
        return uniform_rows(num_rows, count)
    leading = vectors[:, :rank]
    rows = rectangular_maxvol(leading, square_maxvol(leading), count)
    return compared[earliest_equal_rows(taken, rows)]


def affordable_rows(count: int, rank: int, dimension: int) -> int:
    """How many embeddings can be compared within `MOST_PRODUCTS`; `FEWEST_COMPARED_ROWS` always."""
    # A row goes through three products with the sketch, is expressed in the chosen ones twice, and
    # is looked at for each further one.
    per_row = (rank + OVERSAMPLING) * (3 * dimension + 2 * rank + count)
    return max(FEWEST_COMPARED_ROWS, MOST_PRODUCTS // per_row)


def earliest_equal_rows(embeddings: FloatArray, rows: IndexArray) -> IndexArray:
    """int64, ascending, unique: the first row of `embeddings` that equals each of `rows`.

    Products of equal rows may differ in their last digits, by where in the matrix they stand, and
    would choose among them at random.
    """
    # Sums in whole numbers are exact, so equal rows have equal ones.
    sums = np.ascontiguousarray(embeddings).view(np.uint32).sum(axis=1, dtype=np.uint64)
    earliest = []
    for row in rows.tolist():
        alike = np.flatnonzero(sums[: row + 1] == sums[row])
        is_equal = (embeddings[alike] == embeddings[row]).all(axis=1)
        is_equal[-1] = True
        earliest.append(int(alike[np.argmax(is_equal)]))
    return np.unique(np.array(earliest, dtype=np.int64))


def left_singular_vectors(embeddings: FloatArray, rank: int) -> TimeArray:
    """float64 `[C, r]`, orthonormal columns, strongest first; r <= `rank` without noise directions.

    From a sketch with a fixed seed and one round of subspace iteration, so the same embeddings give
    the same vectors: exact for D <= rank + 8, else those that stand out. A second round costs as
    much again and found no more of the short events that it is good for.
    """
    dimension = embeddings.shape[1]
    size = (dimension, min(rank + OVERSAMPLING, dimension))
    sketch = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    basis = np.linalg.qr(embeddings.T @ (embeddings @ sketch))[0]
    projected = (embeddings @ basis).astype(np.float64)
    energies, axes = np.linalg.eigh(projected.T @ projected)
    energies, axes = energies[::-1][:rank], axes[:, ::-1][:, :rank]
    is_signal = energies > LEAST_SINGULAR_VALUE**2 * energies[0]
    vectors: TimeArray = projected @ (axes[:, is_signal] / np.sqrt(energies[is_signal]))
    return vectors


def square_maxvol(vectors: TimeArray) -> IndexArray:
    """int64 `[r]`: rows of `vectors` (`[C, r]`, full rank) whose determinant no swap of one row
    for another multiplies by more than `TOLERANCE`.

    Starts from greedily pivoted rows; each swap costs O(C r) and raises the volume by 5 %, so there
    are few.
    """
    rows = _pivot_rows(vectors)
    coefficients = vectors @ np.linalg.inv(vectors[rows])
    for _ in range(MOST_SWAPS):
        place = int(np.argmax(np.abs(coefficients)))
        row, column = divmod(place, len(rows))
        pivot = coefficients[row, column]
        if abs(pivot) <= TOLERANCE:
            break
        change = coefficients[row].copy()
        change[column] -= 1.0
        coefficients -= np.outer(coefficients[:, column], change / pivot)
        rows[column] = row
    return rows


def rectangular_maxvol(vectors: TimeArray, rows: IndexArray, count: int) -> IndexArray:
    """int64: `rows`, then one after the other the row of `vectors` (`[C, r]`) that the chosen ones
    represent worst, up to `count` in all or until none needs coefficients of a norm above
    `TOLERANCE`. Each raises the volume as much as one row can. O(C r) a row.
    """
    coefficients = vectors @ np.linalg.inv(vectors[rows])
    squared_norms = np.einsum("ij,ij->i", coefficients, coefficients)
    gram_inverse = np.eye(len(rows))
    chosen = rows.tolist()
    while len(chosen) < count:
        worst = int(np.argmax(squared_norms))
        if squared_norms[worst] <= TOLERANCE**2:
            break
        growth = 1.0 + squared_norms[worst]
        direction = gram_inverse @ coefficients[worst]
        squared_norms -= (coefficients @ direction) ** 2 / growth
        gram_inverse -= np.outer(direction, direction) / growth
        chosen.append(worst)
    return np.array(chosen, dtype=np.int64)


def _pivot_rows(vectors: TimeArray) -> IndexArray:
    """Each time the row that stands furthest out of the span of those before it."""
    num_rows, rank = vectors.shape
    residuals = np.einsum("ij,ij->i", vectors, vectors)
    factors = np.zeros((rank, num_rows))
    rows = np.empty(rank, dtype=np.int64)
    for step in range(rank):
        row = int(np.argmax(residuals))
        products = vectors @ vectors[row] - factors[:step].T @ factors[:step, row]
        factors[step] = products / np.sqrt(residuals[row])
        residuals -= factors[step] ** 2
        rows[step] = row
    return rows


@dataclass(frozen=True, slots=True)
class MaxvolSampler:
    """Frames that span the largest volume: what the video shows, however briefly; no question."""

    id: ClassVar[str] = "maxvol"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = False

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How many directions are told apart, and among how many rows."""

        rank: int = field(
            default=DEFAULT_RANK,
            metadata={
                "doc": "most leading directions of the embeddings that are told apart, 1 to 256; "
                "never more than the budget"
            },
        )
        most_rows: int = field(
            default=DEFAULT_MOST_ROWS,
            metadata={
                "doc": "above this many candidates, evenly spread ones, 256 to 20000; fewer where "
                "rank, budget and dimension would cost over 0.6 CPU seconds"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(self, rank=(1, 256), most_rows=(256, 20_000))

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
        """Exactly `min(budget, C)` frame indices; `uniform` rows where embeddings tell none apart.

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
        """As `select`; the note says when fewer frames than wanted represent all others."""
        del query, scenes
        wanted = num_wanted(video, budget)
        if wanted in (0, len(video.candidates)):
            return NotedSelection(finalise([], video, budget))
        embeddings = video.image_embeddings(self.encoder)
        options = self.options
        rows = maxvol_rows(embeddings, wanted, options.rank, options.most_rows)
        note = f"{len(rows)} frames represent all others, {wanted - len(rows)} are spread over time"
        return NotedSelection(finalise(rows, video, budget), note if len(rows) < wanted else None)
