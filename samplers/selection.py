"""Row arithmetic that samplers share: usable scores, top rows, quotas, and `finalise`, the way out.

Samplers work on candidate *rows* `0..C-1`; `finalise` repairs them and maps them to frame indices.
"""

from __future__ import annotations

import heapq
import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from samplers.contract import FloatArray, IndexArray, Scene, TimeArray, VideoHandle

Rows: TypeAlias = Sequence[int] | IndexArray
RealArray: TypeAlias = npt.NDArray[np.floating[Any]]

SMALLEST_SPREAD = 1e-12
"""Scores whose maximum and minimum lie closer than this rank nothing."""


def is_degenerate(scores: RealArray) -> bool:
    """True when scores cannot rank frames: none at all, a non-finite one, or all (nearly) equal."""
    if len(scores) == 0:
        return True
    lowest, highest = float(scores.min()), float(scores.max())
    # A NaN makes both ends NaN and an infinity makes the spread infinite or NaN.
    return not SMALLEST_SPREAD <= highest - lowest < np.inf


def usable_scores(video: VideoHandle, encoder: str, query: str | None) -> FloatArray | None:
    """float32 `[C]` cosines with the query, or None without a query or when they are degenerate.

    Raises `FeaturesMissingError` when there is a query but the video or the query lacks features.
    """
    if query is None:
        return None
    scores = video.scores(encoder, query)
    return None if is_degenerate(scores) else scores


def seeded_rng(
    video: VideoHandle, query: str | None, budget: int, seed: int
) -> np.random.Generator:
    """Random numbers that depend on video, question, budget and `seed` alone, in any process."""
    text = json.dumps([video.video_id, query, budget, seed])
    return np.random.default_rng(int.from_bytes(sha256(text.encode()).digest()[:16]))


def min_max_scaled(scores: RealArray) -> TimeArray:
    """float64 `[C]` in 0..1: how relevant every row is within its video.

    `scores` must not be degenerate.
    """
    above = scores.astype(np.float64) - float(scores.min())
    relevance: TimeArray = above / above.max()
    return relevance


def finite_embeddings(embeddings: FloatArray) -> FloatArray:
    """`embeddings` (`[N, D]`), or a copy in which rows that are not finite are zero."""
    with np.errstate(all="ignore"):
        is_finite = np.isfinite(np.einsum("ij,ij->i", embeddings, embeddings))
    if is_finite.all():
        return embeddings
    return np.where(is_finite[:, np.newaxis], embeddings, np.float32(0))


def num_wanted(video: VideoHandle, budget: int) -> int:
    """How many frames fill the budget: `min(budget, C)`, never below zero."""
    return min(max(budget, 0), len(video.candidates))


def uniform_rows(
    num_rows: int, count: int, mode: Literal["centre", "endpoints"] = "centre"
) -> IndexArray:
    """int64 rows spread evenly over `0..num_rows-1`.

    `centre` takes the middles of `count` equal bins, `floor((i + 0.5) * num_rows / count)`;
    `endpoints` truncates `linspace(0, num_rows - 1, count)`, the convention of LLaVA and most
    published baselines.
    """
    if count <= 0 or num_rows <= 0:
        return np.empty(0, dtype=np.int64)
    if mode == "endpoints":
        return np.linspace(0, num_rows - 1, count).astype(np.int64)
    return (2 * np.arange(count, dtype=np.int64) + 1) * num_rows // (2 * count)


def top_rows(scores: RealArray, count: int) -> IndexArray:
    """int64, ascending: the `count` best rows by (score descending, row ascending), in O(C).

    NaN ranks last.
    """
    if count >= len(scores):
        return np.arange(len(scores), dtype=np.int64)
    if count <= 0:
        return np.empty(0, dtype=np.int64)
    ranked = np.where(np.isnan(scores), -np.inf, scores)
    threshold = np.partition(ranked, len(ranked) - count)[len(ranked) - count]
    above = np.flatnonzero(ranked > threshold)
    tied = np.flatnonzero(ranked == threshold)[: count - len(above)]
    return np.sort(np.concatenate([above, tied]))


def nms_rows(scores: RealArray, times_s: TimeArray, count: int, gap_s: float) -> IndexArray:
    """int64, ascending: up to `count` best rows, any two of them at least `gap_s` seconds apart.

    Greedy temporal non-maximum suppression: the best row left by (score descending, row ascending)
    is taken and every row closer to it than `gap_s` leaves. `times_s` is float64 `[C]`, increasing.
    NaN scores are never taken. Fewer than `count` when no row is left: `finalise` adds those
    furthest in time. A gap of 0 gives the top rows. O(C log C) at worst, O(C) when few leave.
    """
    rows = np.flatnonzero(~np.isnan(scores))
    if gap_s <= 0:
        return rows[top_rows(scores[rows], count)]
    picks: list[int] = []
    is_near = np.zeros(len(scores), dtype=np.bool_)
    num_sorted = 4 * count
    while len(picks) < count and len(rows):
        best = rows[top_rows(scores[rows], num_sorted)]
        best = best[np.argsort(-scores[best], kind="stable")]
        first_near = np.searchsorted(times_s, times_s[best] - gap_s, side="right").tolist()
        first_far = np.searchsorted(times_s, times_s[best] + gap_s).tolist()
        for row, first, end in zip(best.tolist(), first_near, first_far, strict=True):
            if not is_near[row]:
                picks.append(row)
                # A gap below the resolution of the times does not even reach the row itself.
                is_near[row] = is_near[first:end] = True
        rows = rows[~is_near[rows]]
        # Every sorted row has been taken or is near one: few rounds, each over the rows left.
        num_sorted *= 4
    return np.sort(np.array(picks[: max(count, 0)], dtype=np.int64))


def apportion(weights: RealArray, total: int, caps: IndexArray) -> IndexArray:
    """int64 shares of `total` in proportion to `weights` by largest remainder, none above its cap.

    Ties go to the lower position. What a full position cannot take is shared again among the
    others; the sum is `min(total, caps.sum())`.
    """
    shares = np.zeros(len(weights), dtype=np.int64)
    left = min(total, int(caps.sum()))
    # Every round either finishes or fills a position up to its cap.
    while left > 0:
        room = caps - shares
        open_weights = np.where(room > 0, weights, 0.0)
        if open_weights.sum() <= 0:
            open_weights = (room > 0).astype(np.float64)
        ideal = left * (open_weights / open_weights.sum())
        step = np.minimum(np.floor(ideal).astype(np.int64), room)
        order = np.argsort(step - ideal, kind="stable")
        order = order[(room > step)[order]]
        step[order[: left - int(step.sum())]] += 1
        shares += step
        left -= int(step.sum())
    return shares


def shot_start_rows(scenes: list[Scene], candidates: IndexArray) -> IndexArray:
    """int64, strictly increasing, first element 0: the first candidate row of every shot.

    A shot that holds no candidate disappears. Empty only when there are no candidates.
    """
    starts = np.array([scene.start_frame for scene in scenes], dtype=np.int64)
    rows = np.searchsorted(candidates, starts)
    inner = rows[(rows > 0) & (rows < len(candidates))]
    return np.unique(np.concatenate([[0], inner])) if len(candidates) else inner


def finalise(
    rows: Rows, video: VideoHandle, budget: int, scores: RealArray | None = None
) -> list[int]:
    """Repair `rows` into exactly `min(budget, C)` candidates and map them to frame indices.

    Repeats and rows outside `0..C-1` are dropped. Too many: the best by (score descending, row
    ascending) stay, or, without `scores` (`[C]`), an even thinning. Too few: the row furthest in
    time from its nearest pick is added until the budget is full (tie: higher score, then lower
    row). O(C + budget log C).
    """
    wanted = num_wanted(video, budget)
    kept = capped_rows(rows, video, budget, scores)
    if len(kept) < wanted:
        times_s = video.timestamps_s[video.candidates]
        kept = _filled_rows(kept, wanted, times_s, scores)
    return frame_indices(kept, video)


def capped_rows(
    rows: Rows, video: VideoHandle, budget: int, scores: RealArray | None = None
) -> IndexArray:
    """The first half of `finalise`, for samplers that need not fill: valid, unique, no more."""
    num_rows = len(video.candidates)
    wanted = num_wanted(video, budget)
    unique = np.unique(np.asarray(rows, dtype=np.int64))
    unique = unique[(unique >= 0) & (unique < num_rows)]
    if len(unique) <= wanted:
        return unique
    if scores is None:
        return unique[uniform_rows(len(unique), wanted)]
    return unique[top_rows(scores[unique], wanted)]


def frame_indices(rows: IndexArray, video: VideoHandle) -> list[int]:
    """Python ints: the frame index of every row."""
    frames: list[int] = video.candidates[rows].tolist()
    return frames


def _filled_rows(
    picks: IndexArray, wanted: int, times_s: TimeArray, scores: RealArray | None
) -> IndexArray:
    if wanted >= len(times_s):
        return np.arange(len(times_s), dtype=np.int64)
    ranks = _tie_ranks(scores, len(times_s))
    if len(picks) == 0:
        # Every row is equally far from no pick at all, so the tie rule decides.
        picks = np.array([int(np.argmax(ranks))], dtype=np.int64)
    bounds = [-1, *picks.tolist(), len(times_s)]
    gaps = _Gaps(times_s, ranks)
    for left, right in pairwise(bounds):
        gaps.push(left, right)
    added = [gaps.pop() for _ in range(wanted - len(picks))]
    return np.sort(np.concatenate([picks, np.array(added, dtype=np.int64)]))


def _tie_ranks(scores: RealArray | None, num_rows: int) -> RealArray:
    if scores is None:
        return np.zeros(num_rows)
    return np.where(np.isnan(scores), -np.inf, scores)


class _Gaps:
    """The stretches between neighbouring picks, each with its row furthest in time from both ends.

    Adding a pick splits one stretch in two and leaves all others as they are, which makes the fill
    O(log C) a frame where a distance per row would be O(C).
    """

    def __init__(self, times_s: TimeArray, ranks: RealArray) -> None:
        # Lists: reading one element of an array costs ten times as much.
        self._times_s: list[float] = times_s.tolist()
        self._ranks: list[float] = ranks.tolist()
        self._heap: list[tuple[float, float, int, int, int]] = []

    def push(self, left: int, right: int) -> None:
        """Add the open stretch between picks `left` and `right` (-1 and C stand for no pick)."""
        if right - left < 2:
            return
        best = min(self._key(row, left, right) for row in self._middle(left, right))
        heapq.heappush(self._heap, (*best, left, right))

    def pop(self) -> int:
        """Remove and return the furthest row, leaving the two stretches beside it."""
        _, _, row, left, right = heapq.heappop(self._heap)
        self.push(left, row)
        self.push(row, right)
        return row

    def _middle(self, left: int, right: int) -> range:
        if left < 0:
            return range(1)
        if right == len(self._times_s):
            return range(right - 1, right)
        middle_s = (self._times_s[left] + self._times_s[right]) / 2
        nearest = bisect_left(self._times_s, middle_s, left + 1, right)
        # One row more than needed on either side covers the rounding of the middle.
        return range(max(left + 1, nearest - 2), min(right, nearest + 2))

    def _key(self, row: int, left: int, right: int) -> tuple[float, float, int]:
        times_s = self._times_s
        from_left_s = times_s[row] - times_s[left] if left >= 0 else math.inf
        to_right_s = times_s[right] - times_s[row] if right < len(times_s) else math.inf
        return -min(from_left_s, to_right_s), -self._ranks[row], row
