"""`shot`: every shot gets its share of the frames, and inside a shot they are spread evenly.

Shots come from the index; without them they are detected on the embeddings, as peaks of the change
from one candidate to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from samplers.contract import (
    FeaturesMissingError,
    FloatArray,
    FrameScorer,
    IndexArray,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.options import check_ranges
from samplers.selection import (
    RealArray,
    apportion,
    finalise,
    min_max_scaled,
    num_wanted,
    shot_start_rows,
    top_rows,
    uniform_rows,
    usable_scores,
)

MOST_COMPARED_ROWS = 20_000
"""Detection on embeddings compares at most this many evenly thinned rows, to bound its time."""


def detected_start_rows(embeddings: FloatArray, prominence: float) -> IndexArray:
    """int64, first element 0: rows at which the picture changes, by peaks of 1 - cosine.

    `embeddings` is float32 `[C, D]`, L2-normalised, C >= 1. After DIG (arXiv 2512.04000), which
    uses a prominence of 0.1.
    """
    stride = -(-len(embeddings) // MOST_COMPARED_ROWS)
    compared = embeddings[::stride]
    with np.errstate(invalid="ignore", over="ignore"):
        change = 1.0 - np.einsum("ij,ij->i", compared[:-1], compared[1:])
    # Rows that are not finite show no change that could be told.
    change = np.where(np.isfinite(change), np.maximum(change, 0.0), 0.0)
    # Stillness before and after, so that a change at either end is a peak too.
    peaks = prominent_peaks(np.pad(change, 1), prominence)
    starts: IndexArray = np.concatenate([[0], peaks * stride]).astype(np.int64)
    return starts


def prominent_peaks(heights: RealArray, prominence: float) -> IndexArray:
    """int64, ascending: where local maxima rise at least `prominence` above their surroundings.

    Above the higher of the two lowest points that lie between the peak and the next higher one on
    either side, or the end. `heights` is not negative and starts and ends with 0; of a flat top the
    first row counts. The definition of SciPy's `find_peaks`, whose import costs a second.
    """
    steps = np.flatnonzero(np.diff(heights, prepend=np.nan) != 0)
    levels = heights[steps]
    is_peak = (levels[1:-1] > levels[:-2]) & (levels[1:-1] > levels[2:])
    # A peak lower than this cannot rise so far above anything, nor can it end another's reach.
    peaks: IndexArray = steps[1:-1][is_peak & (levels[1:-1] >= prominence)]
    if len(peaks) == 0:
        return peaks
    valleys = np.minimum.reduceat(heights, np.concatenate([[0], peaks]))
    tops = heights[peaks].tolist()
    left = _lowest_reached(tops, valleys[:-1].tolist())
    right = _lowest_reached(tops[::-1], valleys[:0:-1].tolist())[::-1]
    is_prominent = heights[peaks] - np.maximum(left, right) >= prominence
    return peaks[np.flatnonzero(is_prominent)]


def _lowest_reached(tops: list[float], valleys_before: list[float]) -> list[float]:
    """For every peak the lowest point back to the last higher peak; each peak is passed once."""
    lowest: list[float] = []
    higher: list[tuple[float, float]] = []
    for top, valley in zip(tops, valleys_before, strict=True):
        reached = valley
        while higher and higher[-1][0] <= top:
            reached = min(reached, higher.pop()[1])
        higher.append((top, reached))
        lowest.append(reached)
    return lowest


def shot_quotas(weights: TimeArray, wanted: int, lengths: IndexArray) -> IndexArray:
    """int64 frames for every shot, summing to `wanted`: at least one each, by largest remainder.

    `weights` is float64, not negative; `lengths` are the rows that each shot holds. With more shots
    than frames the heaviest `wanted` shots get one each (tie: the earlier shot).
    """
    if len(weights) >= wanted:
        quotas = np.zeros(len(weights), dtype=np.int64)
        quotas[top_rows(weights, wanted)] = 1
        return quotas
    # Light shots, whose fair share is below one, get their one first; the others share the rest.
    order = np.argsort(weights, kind="stable")
    ascending = weights[order]
    still_to_share = np.cumsum(ascending[::-1])[::-1]
    has_fair_share = ascending * (wanted - np.arange(len(weights))) >= still_to_share
    num_light = int(np.argmax(has_fair_share)) if has_fair_share.any() else len(weights)
    quotas = np.ones(len(weights), dtype=np.int64)
    heavy = np.sort(order[num_light:])
    quotas[heavy] = apportion(weights[heavy], wanted - num_light, lengths[heavy])
    # Heavy shots may be too short for their share; what they cannot hold goes to the light ones.
    return quotas + apportion(weights, wanted - int(quotas.sum()), lengths - quotas)


def importances(scores: RealArray, starts: IndexArray) -> TimeArray:
    """float64, about 0..1: how much every stretch that begins at `starts` matters to the question.

    0.4 length + 0.2 mean + 0.3 maximum + 0.1 variance of the scores scaled to 0..1, length and
    variance relative to the video's (the rule of WFS-SB, arXiv 2603.00512). `scores` is `[C]`,
    finite and not constant.
    """
    relevance = min_max_scaled(scores)
    lengths = np.diff(np.append(starts, len(scores)))
    means = np.add.reduceat(relevance, starts) / lengths
    squares = np.add.reduceat(relevance**2, starts) / lengths
    variances = np.maximum(squares - means**2, 0.0)
    weighed: TimeArray = (
        0.4 * lengths / len(scores)
        + 0.2 * means
        + 0.3 * np.maximum.reduceat(relevance, starts)
        + 0.1 * variances / relevance.var()
    )
    return weighed


def softmax(values: TimeArray, temperature: float = 1.0) -> TimeArray:
    """float64 shares that sum to 1; the lower the temperature, the more goes to the highest."""
    weights = np.exp((values - values.max()) / temperature)
    shares: TimeArray = weights / weights.sum()
    return shares


@dataclass(frozen=True, slots=True)
class ShotSampler:
    """Frames shared out over the shots of the video."""

    id: ClassVar[str] = "shot"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How frames are shared out over shots, and chosen inside one."""

        weight: Literal["duration", "importance"] = field(
            default="duration",
            metadata={
                "doc": "what a shot's share follows: its seconds, or its relevance to the question"
            },
        )
        pick: Literal["relevance", "centre"] = field(
            default="relevance",
            metadata={
                "doc": "inside a shot, cut into as many equal stretches as it has frames: the most "
                "relevant candidate of each stretch, or its centre"
            },
        )
        prominence: float = field(
            default=0.1,
            metadata={
                "doc": "without shots from the index: how far the change (1 - cosine) at a "
                "boundary must rise above its surroundings, 0 to 2"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(self, prominence=(0, 2))

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
        """Exactly `min(budget, C)` frame indices.

        Without a query or usable scores: shares by duration, centres. Without shots: detected ones;
        without embeddings too, the whole video is one shot. Raises `FeaturesMissingError` when a
        query is to be used and has no scores.
        """
        wanted = num_wanted(video, budget)
        if wanted in (0, len(video.candidates)):
            return finalise([], video, budget)
        scores = self._scores(video, query)
        starts = self._start_rows(video, scenes)
        lengths = np.diff(np.append(starts, len(video.candidates)))
        quotas = shot_quotas(self._weights(video, starts, scores), wanted, lengths)
        rows = [
            row
            for start, length, quota in zip(starts, lengths, quotas, strict=True)
            if quota
            for row in self._rows_inside(int(start), int(length), int(quota), scores)
        ]
        return finalise(rows, video, budget, scores)

    def _scores(self, video: VideoHandle, query: str | None) -> FloatArray | None:
        if self.options.pick == "centre" and self.options.weight == "duration":
            return None
        return usable_scores(video, self.encoder, query)

    def _start_rows(self, video: VideoHandle, scenes: list[Scene] | None) -> IndexArray:
        if scenes is not None:
            return shot_start_rows(scenes, video.candidates)
        try:
            embeddings = video.image_embeddings(self.encoder)
        except FeaturesMissingError:
            return shot_start_rows([], video.candidates)
        return detected_start_rows(embeddings, self.options.prominence)

    def _weights(
        self, video: VideoHandle, starts: IndexArray, scores: FloatArray | None
    ) -> TimeArray:
        if self.options.weight == "importance" and scores is not None:
            return softmax(importances(scores, starts))
        times_s = video.timestamps_s[video.candidates[starts]]
        durations_s: TimeArray = np.diff(np.append(times_s, video.timestamps_s[-1]))
        return durations_s

    def _rows_inside(
        self, start: int, length: int, quota: int, scores: FloatArray | None
    ) -> list[int]:
        if self.options.pick == "centre" or scores is None:
            centres: list[int] = (start + uniform_rows(length, quota)).tolist()
            return centres
        edges = (start + np.arange(quota + 1) * length // quota).tolist()
        return [low + int(np.argmax(scores[low:high])) for low, high in pairwise(edges)]
