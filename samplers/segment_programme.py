"""How many frames each segment of a video gets: the dynamic programme of MDP3.

Segments are taken in order of time. For every number of frames chosen so far, the best choice is
kept and extended by the greedy choice inside the next segment, given the last frame chosen before
it (arXiv 2501.02885). A helper of `mdp3`, not a sampler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from samplers.contract import IndexArray, TimeArray
from samplers.selection import RealArray, top_rows, uniform_rows

MOST_SEGMENT_PICKS = 128
MOST_SEGMENTED_ROWS = 1024
"""Each row costs one vectorised step; the authors look at 128 frames of a video."""
MOST_PRODUCTS = 200_000_000
NO_ROW = -1


class BlockKernel(Protocol):
    """A positive semi-definite matrix `[N, N]` of similarities, read in blocks."""

    def diagonal(self) -> RealArray:
        """`[N]`."""
        ...

    def block(self, rows: IndexArray, columns: IndexArray) -> RealArray:
        """`[len(rows), len(columns)]`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SegmentChoices:
    """What a segment gives, greedily, after each of B rows chosen last before it."""

    rows: IndexArray
    """int64 `[B, M]`, in the order of choice."""
    worth: TimeArray
    """float64 `[B, M + 1]`: of the first 0, 1, .. M of them; minus infinity where not usable."""


def segment_compared_rows(
    scores: RealArray | None, num_rows: int, count: int, segment_size: int
) -> IndexArray:
    """int64, ascending: rows that are cut into segments: all, or the best, or evenly spread ones.

    `scores` is `[C]`; `count` is at most `MOST_SEGMENT_PICKS`.
    """
    most_picks = min(count, segment_size)
    affordable = 2 * MOST_PRODUCTS // (most_picks**2 * (count + 1))
    limit = max(min(MOST_SEGMENTED_ROWS, affordable), 2 * count)
    if num_rows <= limit:
        return np.arange(num_rows, dtype=np.int64)
    return uniform_rows(num_rows, limit) if scores is None else top_rows(scores, limit)


def segmented_rows(
    kernel: BlockKernel, bonus: RealArray, count: int, segment_size: int, jitter: float
) -> IndexArray:
    """int64, ascending: `count` of N rows, or as many as are usable, chosen segment by segment.

    The worth of a choice is the sum over segments of its bonus (`[N]`) and the log-determinant of
    the segment's chosen rows given the last row chosen before the segment. Rows whose bonus or
    diagonal is not finite are never chosen. O(N) vectorised steps.
    """
    most_worth = np.full(count + 1, -np.inf)
    most_worth[0] = 0.0
    traces: list[list[int]] = [[] for _ in range(count + 1)]
    bounded = _Programme(kernel, bonus.astype(np.float64), kernel.diagonal(), jitter)
    for start in range(0, len(bonus), segment_size):
        segment = np.arange(start, min(start + segment_size, len(bonus)))
        lasts = np.array([trace[-1] if trace else NO_ROW for trace in traces])
        conditions, condition_of = np.unique(lasts, return_inverse=True)
        with np.errstate(invalid="ignore", over="ignore"):
            choices = bounded.choices(segment, conditions, min(count, len(segment)))
        most_worth, traces = _extended(most_worth, traces, choices, condition_of)
    best = int(np.flatnonzero(np.isfinite(most_worth))[-1])
    return np.array(traces[best], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Programme:
    kernel: BlockKernel
    bonus: TimeArray
    diagonal: RealArray
    jitter: float

    def choices(self, segment: IndexArray, conditions: IndexArray, most: int) -> SegmentChoices:
        """Up to `most` rows of `segment`, greedily, given each of `conditions` (or `NO_ROW`)."""
        num_conditions, batch = len(conditions), np.arange(len(conditions))
        inner = self.kernel.block(segment, segment).astype(np.float64)
        factor = np.zeros((num_conditions, most + 1, len(segment)))
        unexplained = np.tile(self.diagonal[segment] + self.jitter, (num_conditions, 1))
        is_given = conditions != NO_ROW
        given = conditions[is_given]
        scale = np.sqrt(self.diagonal[given] + self.jitter)[:, np.newaxis]
        factor[is_given, 0] = self.kernel.block(given, segment) / scale
        unexplained = np.maximum(unexplained - factor[:, 0] ** 2, self.jitter)
        is_open = np.isfinite(unexplained) & np.isfinite(self.bonus[segment])
        rows = np.empty((num_conditions, most), dtype=np.int64)
        worth = np.zeros((num_conditions, most + 1))
        for step in range(most):
            gains = np.where(is_open, np.log(unexplained) + self.bonus[segment], -np.inf)
            picks = gains.argmax(axis=1)
            rows[:, step] = segment[picks]
            worth[:, step + 1] = worth[:, step] + gains[batch, picks]
            is_open[batch, picks] = False
            own = factor[batch, : step + 1, picks][:, np.newaxis]
            left = inner[picks] - (own @ factor[:, : step + 1])[:, 0]
            factor[:, step + 1] = left / np.sqrt(unexplained[batch, picks])[:, np.newaxis]
            unexplained = np.maximum(unexplained - factor[:, step + 1] ** 2, self.jitter)
        return SegmentChoices(rows, worth)


def _extended(
    most_worth: TimeArray,
    traces: list[list[int]],
    choices: SegmentChoices,
    condition_of: IndexArray,
) -> tuple[TimeArray, list[list[int]]]:
    """The best choice of every size after one more segment; of equal ones that with more of it."""
    numbers = np.arange(len(most_worth))
    taken = numbers - numbers[:, np.newaxis]
    beyond = choices.worth.shape[1]
    worth = np.pad(choices.worth, ((0, 0), (0, 1)), constant_values=-np.inf)
    taken_or_beyond = np.where((taken >= 0) & (taken < beyond), taken, beyond)
    totals = most_worth[:, np.newaxis] + worth[condition_of[:, np.newaxis], taken_or_beyond]
    sources = totals.argmax(axis=0)
    extended: list[list[int]] = []
    for number, source in enumerate(sources.tolist()):
        added = choices.rows[condition_of[source], : max(number - source, 0)]
        extended.append(traces[source] + np.sort(added).tolist())
    return totals[sources, numbers], extended
