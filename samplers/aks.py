"""`aks`: adaptive keyframe sampling (Tang et al., CVPR 2025, arXiv 2502.21271).

Halves the video again and again and takes the most relevant frames of every part; a part whose best
frames stand far above its mean is not halved further. Written from the formulas, not from the code,
which has no licence; `upstream_rows` reproduces its output row for row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from samplers.contract import (
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
    num_wanted,
    shot_start_rows,
    top_rows,
    uniform_rows,
    usable_scores,
)

NO_STARTS: IndexArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of rows `start <= row < end`, after `depth` halvings."""

    start: int
    end: int
    depth: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Halving:
    """When to stop halving, and where to cut."""

    budget: int
    t1: float
    t2: float
    all_depth: int
    shot_starts: IndexArray
    """int64 rows, strictly increasing, at which a part may be cut; empty: always in the middle."""


def upstream_rows(
    scores: RealArray, budget: int, t1: float = 0.8, t2: float = -100.0, all_depth: int = 5
) -> list[int]:
    """Rows as the authors' program returns them: ascending, often fewer than `budget`, even none.

    `scores` is `[C]`; constant or NaN scores give the earliest rows of every part, as there.
    """
    if len(scores) < budget:
        return list(range(len(scores)))
    relevance = _min_max(scores)
    halving = Halving(budget, t1, t2, all_depth, NO_STARTS)
    rows: list[int] = []
    for part in _halved(relevance, halving):
        quota = budget // 2**part.depth
        rows += (part.start + top_rows(relevance[part.start : part.end], quota)).tolist()
    return sorted(rows)


def safe_rows(scores: RealArray, halving: Halving) -> IndexArray:
    """int64 rows: the authors' rule with a depth that the budget can serve and no quota left over.

    `scores` is `[C]`, finite and not constant, with C > budget >= 1. The quota that rounding leaves
    over goes to the parts with the highest score.
    """
    relevance = _min_max(scores)
    # floor(log2 budget) and floor(log2(C / 2)): every part can serve a frame and hold two.
    depth = min(halving.all_depth, halving.budget.bit_length() - 1, len(scores).bit_length() - 2)
    bounded = Halving(halving.budget, halving.t1, halving.t2, depth, halving.shot_starts)
    parts = _halved(relevance, bounded)
    # The best part first, so that equal shares of the rest go there first.
    parts.sort(key=lambda part: (-relevance[part.start : part.end].max(), part.start))
    lengths = np.array([part.length for part in parts], dtype=np.int64)
    quotas = np.minimum([halving.budget // 2**part.depth for part in parts], lengths)
    rest = halving.budget - int(quotas.sum())
    quotas = quotas + apportion(np.ones(len(parts)), rest, lengths - quotas)
    return np.concatenate(
        [
            part.start + top_rows(relevance[part.start : part.end], int(quota))
            for part, quota in zip(parts, quotas, strict=True)
        ]
    )


def _min_max(scores: RealArray) -> TimeArray:
    exact = scores.astype(np.float64)
    with np.errstate(all="ignore"):
        relevance: TimeArray = (exact - exact.min()) / (exact.max() - exact.min())
    return relevance


def _halved(relevance: TimeArray, halving: Halving) -> list[Part]:
    """The parts that are halved no further, in order of depth."""
    open_parts, done = [Part(0, len(relevance), 0)], []
    while open_parts:
        deeper: list[Part] = []
        for part in open_parts:
            if part.depth == halving.all_depth or _is_peaked(relevance, part, halving):
                done.append(part)
            else:
                cut = _cut(part, halving.shot_starts)
                deeper += [
                    Part(part.start, cut, part.depth + 1),
                    Part(cut, part.end, part.depth + 1),
                ]
        open_parts = [part for part in deeper if part.length > 0]
    return done


def _is_peaked(relevance: TimeArray, part: Part, halving: Halving) -> bool:
    """The part's best `budget` rows stand more than `t1` above its mean."""
    inside = relevance[part.start : part.end]
    mean = inside.mean()
    # The best rows' mean cannot exceed the maximum, which is much cheaper to find.
    if not inside.max() - mean > halving.t1:
        return False
    best = inside[top_rows(inside, halving.budget)]
    return bool(best.mean() - mean > halving.t1 and inside.std() > halving.t2)


def _cut(part: Part, shot_starts: IndexArray) -> int:
    """The shot boundary nearest the middle, or the middle itself.

    A boundary in the outer quarters is passed over: both sides get the same quota, and a two-second
    title card must not get half of the frames.
    """
    middle = part.start + part.length // 2
    reach = part.length // 4
    low = int(np.searchsorted(shot_starts, max(middle - reach, part.start + 1)))
    high = int(np.searchsorted(shot_starts, min(middle + reach, part.end - 1), side="right"))
    near = shot_starts[low:high]
    return int(near[np.argmin(np.abs(near - middle))]) if len(near) else middle


@dataclass(frozen=True, slots=True)
class AksSampler:
    """Adaptive keyframe sampling: relevant frames, spread over repeatedly halved stretches."""

    id: ClassVar[str] = "aks"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """Thresholds of the published rule, and how faithfully to follow the published program."""

        t1: float = field(
            default=0.8,
            metadata={
                "doc": "a part is halved no further when the mean of its best rows exceeds its "
                "mean by more than this (scores scaled to 0..1)"
            },
        )
        t2: float = field(
            default=-100.0,
            metadata={"doc": "and when its standard deviation exceeds this; negative: always"},
        )
        all_depth: int = field(default=5, metadata={"doc": "most halvings, 0 to 10"})
        scene_hints: bool = field(
            default=True,
            metadata={
                "doc": "halve at the shot boundary nearest the middle; safe mode only, no effect "
                "without shots"
            },
        )
        compat: Literal["safe", "upstream"] = field(
            default="safe",
            metadata={
                "doc": "safe: the rule mended for every budget; upstream: the published program's "
                "rows, then repaired to the budget"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(self, all_depth=(0, 10))

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
        """Exactly `min(budget, C)` frame indices; `uniform` rows without a query or usable scores.

        Raises `FeaturesMissingError`.
        """
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return finalise([], video, budget)
        scores = usable_scores(video, self.encoder, query)
        if scores is None:
            return finalise(uniform_rows(num_rows, wanted), video, budget)
        options = self.options
        if options.compat == "upstream":
            rows = upstream_rows(scores, budget, options.t1, options.t2, options.all_depth)
            return finalise(rows, video, budget, scores)
        hinted = options.scene_hints and scenes is not None
        starts = shot_start_rows(scenes or [], video.candidates) if hinted else NO_STARTS
        halving = Halving(wanted, options.t1, options.t2, options.all_depth, starts)
        return finalise(safe_rows(scores, halving), video, budget, scores)
