"""Greedy choice of rows by relevance plus log-determinant, for the samplers that trade the two.

Maximises `sum(bonus) + weight * log det K_S` over sets S of rows by incremental Cholesky (Chen et
al., NeurIPS 2018, arXiv 1709.05135): a row's gain is its bonus plus the logarithm of what the rows
chosen so far leave unexplained of it. A helper of samplers, not a sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from samplers.contract import IndexArray, TimeArray
from samplers.selection import RealArray, top_rows, uniform_rows

MOST_PICKS = 512
"""Frames chosen greedily; a larger budget is filled by time, so that no budget takes seconds."""
MOST_COMPARED_ROWS = 20_000
MOST_PRODUCTS = 1_000_000_000
"""Multiplications of one selection, about 0.2 s of one CPU."""
LEADERS = 128
"""Rows looked at for the next choices, before all others are compared with those chosen."""
UNIT_TOLERANCE = 1e-3
"""Embeddings are kept in half precision, so their norms are 1 up to this."""


class Kernel(Protocol):
    """A positive semi-definite matrix `[N, N]` of similarities that is never held."""

    def diagonal(self) -> RealArray:
        """`[N]`."""
        ...

    def columns(self, rows: Sequence[int]) -> RealArray:
        """`[len(rows), N]`: the similarities of the given rows and every row."""
        ...

    def restricted(self, rows: IndexArray) -> Kernel:
        """The kernel of the given rows alone."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GramKernel:
    """Inner products of embeddings `[N, D]`."""

    embeddings: RealArray

    def diagonal(self) -> RealArray:
        return squared_norms(self.embeddings)

    def columns(self, rows: Sequence[int]) -> RealArray:
        return inner_products(self.embeddings, rows)

    def restricted(self, rows: IndexArray) -> GramKernel:
        return GramKernel(self.embeddings[rows])


@dataclass(frozen=True, slots=True, eq=False)
class LogDetObjective:
    """What a set of rows is worth: `sum(bonus) + weight * log det (K + jitter I)`."""

    kernel: Kernel
    bonus: RealArray
    """`[N]`: what each row is worth by itself."""
    weight: float
    jitter: float
    """Above 0; also the least that can remain unexplained of a row, which rounding would pass."""


def greedy_rows(objective: LogDetObjective, count: int, first: int | None = None) -> list[int]:
    """Up to `count` rows in the order of choice, each the one of highest gain at its turn.

    Ties: higher bonus, then lower row. `first`, when usable, is chosen before all others. A row
    whose bonus or diagonal is not finite is never chosen. O(count * N * (count + cost of a kernel
    entry)) time, O(count * N) memory.

    A gain never grows as more rows are chosen. So while the best of the `LEADERS` with the highest
    gains stays above what any other row had, it is the best of all, and the others are compared
    with all such choices in one pass over them, with less traffic to memory. These are the same
    rows as long as no two gains are closer than the kernel's rounding. With single-precision
    products and a jitter near it (1e-6), rows that repeat chosen ones are; the same input gives
    the same rows all the same.
    """
    everything = _Progress.at_start(objective, count)
    # Rows that are not finite spoil their own column of the factor and nothing else.
    with np.errstate(invalid="ignore", over="ignore"):
        while len(everything.picks) < count and everything.is_open.any():
            batch = _next_batch(everything, objective.kernel, count, first)
            everything.choose(batch, objective.kernel)
    return everything.picks


def _next_batch(
    everything: _Progress, kernel: Kernel, count: int, first: int | None
) -> list[tuple[int, TimeArray]]:
    """The next choices, at least one, with each one's column of the factor so far."""
    gains = everything.gains()
    best = _best(gains, everything.bonus)
    if first is not None and everything.is_open[first]:
        best = first
    if len(gains) <= LEADERS:
        return [(best, everything.factor[: len(everything.picks), best].copy())]
    leaders = np.union1d(top_rows(gains, LEADERS), [best])
    gains[leaders] = -np.inf
    bound = gains.max()
    among = everything.restricted(leaders, count)
    among_kernel = kernel.restricted(leaders)
    choice, batch = int(np.searchsorted(leaders, best)), []
    while True:
        batch.append((int(leaders[choice]), among.factor[: len(among.picks), choice].copy()))
        among.choose([(choice, batch[-1][1])], among_kernel)
        gains = among.gains()
        choice = _best(gains, among.bonus)
        if len(among.picks) == count or not gains[choice] > bound:
            return batch


def _best(gains: TimeArray, bonus: TimeArray) -> int:
    tied = np.flatnonzero(gains == gains.max())
    return int(tied[np.argmax(bonus[tied])])


@dataclass(slots=True, eq=False)
class _Progress:
    """The incremental Cholesky factorisation of some rows, and what was chosen."""

    weight: float
    jitter: float
    bonus: TimeArray
    is_open: npt.NDArray[np.bool_]
    unexplained: TimeArray
    factor: TimeArray
    """float64 `[count, N]`, of which as many rows are filled as there are picks."""
    picks: list[int]

    @classmethod
    def at_start(cls, objective: LogDetObjective, count: int) -> _Progress:
        diagonal = objective.kernel.diagonal().astype(np.float64)
        bonus = objective.bonus.astype(np.float64)
        return cls(
            weight=objective.weight,
            jitter=objective.jitter,
            bonus=bonus,
            is_open=np.isfinite(diagonal) & np.isfinite(bonus),
            unexplained=diagonal + objective.jitter,
            factor=np.empty((count, len(diagonal))),
            picks=[],
        )

    def restricted(self, rows: IndexArray, count: int) -> _Progress:
        """The same progress over `rows` alone, whose picks are counted but not named."""
        num_picks = len(self.picks)
        factor = np.empty((count, len(rows)))
        factor[:num_picks] = self.factor[:num_picks, rows]
        return _Progress(
            weight=self.weight,
            jitter=self.jitter,
            bonus=self.bonus[rows],
            is_open=self.is_open[rows],
            unexplained=self.unexplained[rows],
            factor=factor,
            picks=list(self.picks),
        )

    def gains(self) -> TimeArray:
        """What every row would add; minus infinity once chosen or where not finite."""
        gains = self.weight * np.log(self.unexplained) + self.bonus
        return np.where(self.is_open, gains, -np.inf)

    def choose(self, batch: list[tuple[int, TimeArray]], kernel: Kernel) -> None:
        """Add rows in order, each given with its own column of the factor."""
        columns = kernel.columns([row for row, _ in batch])
        before = len(self.picks)
        shared = np.stack([own[:before] for _, own in batch]) @ self.factor[:before]
        for (row, own), left in zip(batch, columns - shared, strict=True):
            step = len(self.picks)
            new = left - own[before:] @ self.factor[before:step]
            self.factor[step] = new / np.sqrt(self.unexplained[row])
            self.unexplained = np.maximum(self.unexplained - self.factor[step] ** 2, self.jitter)
            self.is_open[row] = False
            self.picks.append(row)


def compared_rows(
    scores: RealArray | None, num_rows: int, count: int, dimension: int
) -> IndexArray:
    """int64, ascending: the rows among which `count` frames are chosen by pairwise similarity.

    All of them where that is affordable (`MOST_COMPARED_ROWS`, `MOST_PRODUCTS`), else the best by
    `scores` (`[C]`), or evenly spread ones without scores; never fewer than twice `count`.
    """
    affordable = MOST_PRODUCTS // (max(count, 1) * (dimension + count))
    limit = max(min(affordable, MOST_COMPARED_ROWS), 2 * count)
    if num_rows <= limit:
        return np.arange(num_rows, dtype=np.int64)
    return uniform_rows(num_rows, limit) if scores is None else top_rows(scores, limit)


def taken_rows(features: RealArray, rows: IndexArray) -> RealArray:
    """`features[rows]` for ascending unique `rows`, without a copy when they are all rows."""
    return features if len(rows) == len(features) else features[rows]


def inner_products(embeddings: RealArray, rows: Sequence[int]) -> RealArray:
    """`[len(rows), N]`: of the given rows of `embeddings` (`[N, D]`) and every row."""
    # One row as a vector: BLAS multiplies a matrix by a one-column matrix more slowly.
    if len(rows) == 1:
        products: RealArray = (embeddings @ embeddings[rows[0]])[np.newaxis]
    else:
        products = embeddings[rows] @ embeddings.T
    return products


def squared_norms(embeddings: RealArray) -> RealArray:
    """`[N]`: of every row, exactly 1 where it is 1 up to rounding, which must not rank rows."""
    with np.errstate(invalid="ignore", over="ignore"):
        norms = np.einsum("ij,ij->i", embeddings, embeddings)
    return np.where(np.abs(norms - 1) < UNIT_TOLERANCE, 1.0, norms)
