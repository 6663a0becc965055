"""`q-frame`: frames drawn without replacement, the more likely the more like the question.

The selection part of Q-Frame (Zhang et al., ICCV 2025, arXiv 2506.22139): the Gumbel-top-k trick on
a softmax of the scores. Written from the formula; the authors' code is Apache-2.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from samplers.contract import (
    FrameScorer,
    IndexArray,
    NotedSelection,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.options import check_ranges
from samplers.selection import (
    RealArray,
    finalise,
    num_wanted,
    seeded_rng,
    top_rows,
    uniform_rows,
    usable_scores,
)


def gumbel_top_rows(logits: TimeArray, count: int, rng: np.random.Generator) -> IndexArray:
    """int64, ascending: `count` different rows drawn one after the other from softmax(`logits`).

    The greatest of the logits plus Gumbel noise are distributed so (Kool et al., arXiv 1903.06059).
    `logits` is float64 `[C]`, finite. O(C).
    """
    return top_rows(logits + rng.gumbel(size=len(logits)), count)


def standardised(scores: RealArray) -> TimeArray:
    """float64 `[C]`: mean 0, standard deviation 1. `scores` is finite and not constant."""
    exact = scores.astype(np.float64)
    deviations: TimeArray = (exact - exact.mean()) / exact.std()
    return deviations


@dataclass(frozen=True, slots=True)
class QFrameSampler:
    """Relevant frames by a seeded draw: the softmax of the scores, without replacement."""

    id: ClassVar[str] = "q-frame"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How sharp the distribution is, on which scale, and which draw of it."""

        tau: float = field(
            default=0.4,
            metadata={
                "doc": "temperature of the softmax, 0.001 to 1000: lower is nearer to plain "
                "top-k; the authors use 0.8 on logits of another scale"
            },
        )
        scale: Literal["standard", "raw"] = field(
            default="standard",
            metadata={
                "doc": "what is divided by tau. standard: scores at mean 0 and standard deviation "
                "1; raw: the scores themselves"
            },
        )
        seed: int = field(default=0, metadata={"doc": "another seed is another draw"})

        def __post_init__(self) -> None:
            check_ranges(self, tau=(0.001, 1000))

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
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """As `select`; the note says whether relevance counted."""
        del scenes
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return NotedSelection(finalise([], video, budget))
        scores = usable_scores(video, self.encoder, query)
        if scores is None:
            rows = uniform_rows(num_rows, wanted)
            return NotedSelection(finalise(rows, video, budget), "no usable scores: uniform")
        options = self.options
        scaled = standardised(scores) if options.scale == "standard" else scores.astype(np.float64)
        rng = seeded_rng(video, query, budget, options.seed)
        rows = gumbel_top_rows(scaled / options.tau, wanted, rng)
        return NotedSelection(finalise(rows, video, budget, scores))
