"""`fused`: relevance against repetition, where a repetition looks alike and is near or in one shot.

One determinantal choice in which three ideas meet: relevance decides what is worth showing, shots
carry it over noise, and two frames are redundant only as far as they look alike and belong together
in time. Our own; its parts are published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from samplers.contract import (
    FloatArray,
    FrameScorer,
    IndexArray,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.logdet import (
    MOST_PICKS,
    LogDetObjective,
    compared_rows,
    greedy_rows,
    taken_rows,
)
from samplers.mdp3 import NUM_GAUSSIANS, MultiGaussianKernel
from samplers.options import check_ranges
from samplers.selection import (
    RealArray,
    finalise,
    min_max_scaled,
    num_wanted,
    shot_start_rows,
    usable_scores,
)
from samplers.shot import detected_start_rows

SHOT_PROMINENCE = 0.1
"""Of the change between neighbouring candidates, where shots must be detected (as in `shot`)."""


@dataclass(frozen=True, slots=True, eq=False)
class RepetitionKernel:
    """How far one frame repeats another, 0..1: how near they belong, times how alike they look.

    Nearness is a mixture of being in one shot and of e^(-seconds apart / `reach_s`), likeness one
    of 1 and of the kernel of `mdp3`. Products and mixtures of positive semi-definite kernels are
    positive semi-definite.
    """

    times_s: TimeArray
    """float64 `[N]`."""
    shots: IndexArray
    """int64 `[N]`: number of the shot that each frame is in."""
    shot_share: float
    reach_s: float
    looks_share: float
    looks: MultiGaussianKernel | None
    """None where `looks_share` is 0: then embeddings are not read."""

    def diagonal(self) -> RealArray:
        if self.looks is None:
            return np.ones(len(self.shots))
        return self.looks.diagonal() / NUM_GAUSSIANS

    def columns(self, rows: Sequence[int]) -> RealArray:
        given = np.asarray(rows, dtype=np.int64)
        apart_s = np.abs(self.times_s[given, np.newaxis] - self.times_s)
        nearness = (1 - self.shot_share) * np.exp(-apart_s / self.reach_s)
        nearness += self.shot_share * (self.shots[given, np.newaxis] == self.shots)
        if self.looks is None:
            return nearness
        likeness = self.looks.columns(rows) * (self.looks_share / NUM_GAUSSIANS)
        return nearness * (1 - self.looks_share + likeness)

    def restricted(self, rows: IndexArray) -> RepetitionKernel:
        return replace(
            self,
            times_s=self.times_s[rows],
            shots=self.shots[rows],
            looks=None if self.looks is None else self.looks.restricted(rows),
        )


def smoothed(
    relevance: TimeArray, times_s: TimeArray, starts: IndexArray, width_s: float, share: float
) -> TimeArray:
    """float64 `[C]`: `share` of every frame's relevance replaced by the mean of what is near it.

    Near is what lies in the same shot, at most half of `width_s` seconds away. `starts` is int64,
    the first row of every shot, 0 first; `times_s` is float64 `[C]`, increasing.
    """
    num_rows = len(relevance)
    shots = shot_numbers(starts, num_rows)
    ends = np.append(starts[1:], num_rows)
    low = np.maximum(starts[shots], np.searchsorted(times_s, times_s - width_s / 2))
    past = np.searchsorted(times_s, times_s + width_s / 2, side="right")
    high = np.minimum(ends[shots], past)
    sums = np.concatenate([[0.0], np.cumsum(relevance)])
    means = (sums[high] - sums[low]) / (high - low)
    mixed: TimeArray = (1 - share) * relevance + share * means
    return mixed


def shot_numbers(starts: IndexArray, num_rows: int) -> IndexArray:
    """int64 `[num_rows]`, ascending from 0: the shot of every candidate."""
    return np.searchsorted(starts, np.arange(num_rows), side="right") - 1


@dataclass(frozen=True, slots=True)
class FusedSampler:
    """Relevance against repetition, in looks, time and shots at once."""

    id: ClassVar[str] = "fused"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """Relevance against repetition, and what makes a repetition."""

        relevance_weight: float = field(
            default=4.0,
            metadata={
                "doc": "what the most relevant frame is worth beside the least, in units of the "
                "logarithm of newness, 0 to 1000"
            },
        )
        smoothing: float = field(
            default=0.8,
            metadata={
                "doc": "share of a frame's relevance that is the mean of the frames near it in its "
                "shot, 0 to 1: one frame of noise counts less"
            },
        )
        smoothing_s: float = field(
            default=12.0,
            metadata={"doc": "seconds over which that mean is taken, 0 to 1000000"},
        )
        shot_share: float = field(
            default=0.8,
            metadata={
                "doc": "share of nearness that is being in one shot, the rest is being near in "
                "time, 0 to 1"
            },
        )
        reach: float = field(
            default=3.0,
            metadata={
                "doc": "how far nearness in time reaches: to 1/e over this many times the video's "
                "seconds per frame of the budget, 0.01 to 100"
            },
        )
        looks_share: float = field(
            default=0.3,
            metadata={
                "doc": "how far frames that look unlike each other are no repetitions however near "
                "they are, 0 to 1; 0 reads no embeddings"
            },
        )
        eps: float = field(
            default=0.01,
            metadata={"doc": "bounds how bad a repetition is: its logarithm; 0.000001 to 1"},
        )

        def __post_init__(self) -> None:
            check_ranges(
                self,
                relevance_weight=(0.0, 1000.0),
                smoothing=(0.0, 1.0),
                smoothing_s=(0.0, 1e6),
                shot_share=(0.0, 1.0),
                reach=(0.01, 100.0),
                looks_share=(0.0, 1.0),
                eps=(1e-6, 1.0),
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
        """Exactly `min(budget, C)` frame indices; spread out without a query or usable scores.

        Without shots: detected ones. Raises `FeaturesMissingError`.
        """
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return finalise([], video, budget)
        scores = usable_scores(video, self.encoder, query)
        starts = self._start_rows(video, scenes)
        times_s = video.timestamps_s[video.candidates]
        worth = None if scores is None else self._worth(scores, times_s, starts)
        count = min(wanted, MOST_PICKS)
        compared = self._compared(video, worth, count)
        bonus = np.zeros(len(compared)) if worth is None else worth[compared]
        shots = shot_numbers(starts, num_rows)[compared]
        kernel = self._kernel(video, shots, compared, count)
        first = len(compared) // 2 if worth is None else None
        picks = greedy_rows(LogDetObjective(kernel, bonus, 1.0, self.options.eps), count, first)
        return finalise(compared[picks], video, budget, scores)

    def _start_rows(self, video: VideoHandle, scenes: list[Scene] | None) -> IndexArray:
        if scenes is not None:
            return shot_start_rows(scenes, video.candidates)
        return detected_start_rows(video.image_embeddings(self.encoder), SHOT_PROMINENCE)

    def _worth(self, scores: FloatArray, times_s: TimeArray, starts: IndexArray) -> TimeArray:
        options = self.options
        relevance = smoothed(
            min_max_scaled(scores), times_s, starts, options.smoothing_s, options.smoothing
        )
        return options.relevance_weight * relevance

    def _compared(self, video: VideoHandle, worth: TimeArray | None, count: int) -> IndexArray:
        dimension = 1
        if self.options.looks_share > 0:
            dimension = video.image_embeddings(self.encoder).shape[1]
        return compared_rows(worth, len(video.candidates), count, dimension)

    def _kernel(
        self, video: VideoHandle, shots: IndexArray, compared: IndexArray, count: int
    ) -> RepetitionKernel:
        options, looks = self.options, None
        if options.looks_share > 0:
            embeddings = taken_rows(video.image_embeddings(self.encoder), compared)
            looks = MultiGaussianKernel.of(embeddings)
        times_s = video.timestamps_s[video.candidates]
        return RepetitionKernel(
            times_s=times_s[compared],
            shots=shots,
            shot_share=options.shot_share,
            reach_s=options.reach * float(times_s[-1] - times_s[0]) / count,
            looks_share=options.looks_share,
            looks=looks,
        )
