"""Greedy choice of rows by relevance plus log-determinant, for the samplers that trade the two.

Maximises `sum(bonus) + weight * log det K_S` over sets S of rows by incremental Cholesky (Chen et
al., NeurIPS 2018, arXiv 1709.05135): a row's gain is its bonus plus the logarithm of what the rows
chosen so far leave unexplained of it. A helper of samplers, not a sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from samplers.contract import IndexArray, TimeArray
from samplers.selection import RealArray, top_rows, uniform_rows

KernelRow: TypeAlias = Callable[[int], RealArray]
"""Row `j` of the kernel, `[N]`: the similarities of every row and row `j`."""

MOST_PICKS = 512
"""Frames chosen greedily; a larger budget is filled by time, so that no budget takes seconds."""
MOST_COMPARED_ROWS = 20_000
MOST_PRODUCTS = 1_000_000_000
"""Multiplications of one selection, about 0.2 s of one CPU."""
UNIT_TOLERANCE = 1e-3
"""Embeddings are kept in half precision, so their norms are 1 up to this."""


@dataclass(frozen=True, slots=True, eq=False)
class LogDetObjective:
    """What a set of rows is worth: `sum(bonus) + weight * log det (K + jitter I)`, K `[N, N]`.

    K is positive semi-definite and is never held; rows of it are asked for, one per pick.
    """

    kernel_row: KernelRow
    diagonal: RealArray
    """`[N]`, the diagonal of K."""
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
    """
    diagonal = objective.diagonal.astype(np.float64)
    bonus = objective.bonus.astype(np.float64)
    is_open = np.isfinite(diagonal) & np.isfinite(bonus)
    unexplained = diagonal + objective.jitter
    factor = np.empty((count, len(diagonal)))
    picks: list[int] = []
    # Rows that are not finite spoil their own column of the factor and nothing else.
    with np.errstate(invalid="ignore", over="ignore"):
        while len(picks) < count and is_open.any():
            if first is not None and not picks and is_open[first]:
                row = first
            else:
                row = _best(objective.weight * np.log(unexplained) + bonus, bonus, is_open)
            is_open[row] = False
            step = len(picks)
            picks.append(row)
            explained = factor[:step, row] @ factor[:step]
            factor[step] = (objective.kernel_row(row) - explained) / np.sqrt(unexplained[row])
            unexplained = np.maximum(unexplained - factor[step] ** 2, objective.jitter)
    return picks


def _best(gains: TimeArray, bonus: TimeArray, is_open: np.typing.NDArray[np.bool_]) -> int:
    reachable = np.where(is_open, gains, -np.inf)
    tied = np.flatnonzero(reachable == reachable.max())
    return int(tied[np.argmax(bonus[tied])])


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


def squared_norms(embeddings: RealArray) -> RealArray:
    """`[N]`: of every row, exactly 1 where it is 1 up to rounding, which must not rank rows."""
    with np.errstate(invalid="ignore", over="ignore"):
        norms = np.einsum("ij,ij->i", embeddings, embeddings)
    return np.where(np.abs(norms - 1) < UNIT_TOLERANCE, 1.0, norms)
