"""`gens`: a vision-language model sees all likely frames at once and rates ranges of them.

The selection of GenS (ACL Findings 2025, arXiv 2503.09146): the frames most similar to the question
are shown in one call, numbered in time order, and the model names the relevant ranges. The authors
publish the text that comes back; its reading (`rated_ranges.py`) and the choice are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from samplers.aks import AksSampler
from samplers.contract import (
    FrameScorer,
    IndexArray,
    NotedSelection,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.model_scores import UNRANKED_NOTE, available, usable_text
from samplers.options import check_ranges
from samplers.rated_ranges import frame_ratings, rated_ranges
from samplers.selection import (
    finalise,
    frame_indices,
    num_wanted,
    top_rows,
    uniform_rows,
    usable_scores,
)


def best_rated(ratings: TimeArray, count: int, ties: Literal["spread", "first"]) -> IndexArray:
    """int64, ascending: up to `count` positions by rating, NaN never.

    Of those that rate equal at the end, `first` takes the earliest, `spread` an even thinning.
    """
    rated = np.flatnonzero(~np.isnan(ratings))
    if len(rated) <= count or ties == "first":
        return rated[top_rows(ratings[rated], count)]
    lowest = np.sort(ratings[rated])[-count]
    above = rated[ratings[rated] > lowest]
    tied = rated[ratings[rated] == lowest]
    chosen = tied[uniform_rows(len(tied), count - len(above))]
    return np.sort(np.concatenate([above, chosen]))


@dataclass(frozen=True, slots=True)
class GensSampler:
    """A model sees the likely frames in one call and rates ranges of them; only those are taken."""

    id: ClassVar[str] = "gens"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = False
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How many frames the model sees, and which of equally good ones are taken."""

        num_shown: int = field(
            default=256,
            metadata={"doc": "most frames that the model sees, in its one call, 2 to 256"},
        )
        ties: Literal["spread", "first"] = field(
            default="spread",
            metadata={
                "doc": "which of equally rated frames fill the budget's rest: spread, evenly over "
                "them; first, the earliest"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(self, num_shown=(2, 256))

        @property
        def uses_scorer(self) -> bool:
            return True

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
        """1 to `min(budget, C)` frame indices, as `select_with_note` chooses them."""
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """At most one call; the rows of `aks` where there is nothing to ask or to understand.

        Raises `FeaturesMissingError`, and `ScorerUnavailableError` where the model cannot be asked.
        """
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return NotedSelection(finalise([], video, budget))
        cosines = usable_scores(video, self.encoder, query)
        fallback = AksSampler(AksSampler.Options(), encoder=self.encoder)
        if query is None or cosines is None:
            return NotedSelection(fallback.select(video, query, budget, scenes), UNRANKED_NOTE)
        shown = top_rows(cosines, self.options.num_shown)
        text = usable_text(available(self.scorer).rate_ranges(video, query, shown.tolist()))
        ratings = frame_ratings(rated_ranges(text), len(shown))
        num_rated = int(np.count_nonzero(~np.isnan(ratings)))
        asked = f"shown {len(shown)} of {num_rows:,} candidates in one call"
        if num_rated == 0:
            note = f"{asked}; no rating understood, so by aks"
            return NotedSelection(fallback.select(video, query, budget, scenes), note)
        rows = shown[best_rated(ratings, wanted, self.options.ties)]
        return NotedSelection(frame_indices(rows, video), f"{asked}, {num_rated} rated")
