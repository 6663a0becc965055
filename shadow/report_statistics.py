"""Means with confidence intervals where one user asked many questions: the unit is the user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from shadow.report_document import MIN_USERS

Matrix: TypeAlias = npt.NDArray[np.float64]
Clusters: TypeAlias = npt.NDArray[np.int64]

CONFIDENCE: Final = 0.95
NUM_RESAMPLES: Final = 1000
SEED: Final = 8_765
BLOCK_CELLS: Final = 1_000_000
"""Users × resamples that are held at once: 8 MB of weights."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over comparisons and where it may lie; no bounds where too few users spoke."""

    mean: float
    low: float | None
    high: float | None


def estimate_means(values: Matrix, clusters: Clusters) -> list[Estimate | None]:
    """One estimate a column; None for a column without a value.

    `values` is float64 `[R, M]`, NaN where a comparison has none; `clusters` int64 `[R]`, the
    number 0..U-1 of the row's user. Whole users are drawn with replacement (cluster bootstrap,
    fixed seed), and the bounds are percentiles widened for few users (Hesterberg, "What Teachers
    Should Know About the Bootstrap", 2015, section 3.2: the expanded percentile interval).
    """
    if not len(values):
        return [None] * values.shape[1]
    is_there = ~np.isnan(values)
    sums = _cluster_sums(np.where(is_there, values, 0.0), clusters)
    counts = _cluster_sums(is_there.astype(np.float64), clusters)
    totals = counts.sum(axis=0)
    num_clusters = (counts > 0).sum(axis=0)
    resampled = _resampled_means(sums, counts) if num_clusters.max() >= MIN_USERS else None
    return [
        _estimate(
            float(sums[:, column].sum() / totals[column]),
            None if resampled is None else resampled[:, column],
            int(num_clusters[column]),
        )
        if totals[column]
        else None
        for column in range(values.shape[1])
    ]


def share_bounds(num_hit: int, num_all: int) -> tuple[float, float]:
    """Clopper–Pearson bounds of a share: honest also for zero hits, where a bootstrap is not."""
    tail = (1 - CONFIDENCE) / 2
    low = special.betaincinv(num_hit, num_all - num_hit + 1, tail) if num_hit else 0.0
    is_all = num_hit == num_all
    high = 1.0 if is_all else special.betaincinv(num_hit + 1, num_all - num_hit, 1 - tail)
    return float(low), float(high)


def _cluster_sums(values: Matrix, clusters: Clusters) -> Matrix:
    """float64 `[U, M]`."""
    num_clusters = int(clusters.max()) + 1
    columns = [np.bincount(clusters, weights=column, minlength=num_clusters) for column in values.T]
    return np.stack(columns, axis=1)


def _resampled_means(sums: Matrix, counts: Matrix) -> Matrix:
    """float64 `[NUM_RESAMPLES, M]`; NaN where no drawn user has a value."""
    rng = np.random.default_rng(SEED)
    num_clusters, num_columns = sums.shape
    both = np.concatenate([sums, counts], axis=1)
    block = max(1, BLOCK_CELLS // num_clusters)
    drawn = np.empty((NUM_RESAMPLES, 2 * num_columns))
    for start in range(0, NUM_RESAMPLES, block):
        num_rows = min(block, NUM_RESAMPLES - start)
        users = rng.integers(0, num_clusters, size=(num_rows, num_clusters))
        cells = users + np.arange(num_rows)[:, None] * num_clusters
        weights = np.bincount(cells.ravel(), minlength=num_rows * num_clusters)
        drawn[start : start + num_rows] = weights.reshape(num_rows, num_clusters) @ both
    totals, numbers = drawn[:, :num_columns], drawn[:, num_columns:]
    return np.divide(totals, numbers, out=np.full_like(totals, np.nan), where=numbers > 0)


def _estimate(mean: float, resampled: Matrix | None, num_clusters: int) -> Estimate:
    if resampled is None or num_clusters < MIN_USERS:
        return Estimate(mean, None, None)
    tail = _expanded_tail(num_clusters)
    low, high = np.nanquantile(resampled, [tail, 1 - tail])
    # A mean of equal values and its resamples differ by rounding.
    return Estimate(mean, min(mean, float(low)), max(mean, float(high)))


def _expanded_tail(num_clusters: int) -> float:
    quantile = special.stdtrit(num_clusters - 1, 1 - (1 - CONFIDENCE) / 2)
    return float(special.ndtr(-quantile * math.sqrt(num_clusters / (num_clusters - 1))))
