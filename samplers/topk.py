"""`topk`: the candidates most like the question, kept apart in time.

Folklore, with the temporal non-maximum suppression of M-LLM's selector (Hu et al., CVPR 2025, arXiv
2502.19680), which keeps a share of the even spacing between any two picks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from samplers.contract import (
    FrameScorer,
    InvalidOptionsError,
    NotedSelection,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.options import check_ranges
from samplers.selection import finalise, nms_rows, num_wanted, uniform_rows, usable_scores

TIME_ROUNDING_S = 1e-9
"""Times and gaps that are equal on paper differ by less."""


def least_gap_s(times_s: TimeArray, count: int, gap_share: float, max_gap_s: float) -> float:
    """Seconds: `gap_share` of the spacing of `count` even frames, at most `max_gap_s`.

    `times_s` is float64 `[C]`, increasing, C >= 1; `count` >= 1.
    """
    return min(max_gap_s, gap_share * float(times_s[-1] - times_s[0]) / count)


@dataclass(frozen=True, slots=True)
class TopkSampler:
    """The highest scores, no two of them closer in time than a share of the even spacing."""

    id: ClassVar[str] = "topk"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How far apart the frames must lie; 0 in either option is plain top-k."""

        gap_share: float = field(
            default=0.5,
            metadata={
                "doc": "least distance of two frames, as a share of duration / budget, 0 to 1; 0 "
                "is plain top-k"
            },
        )
        max_gap_s: float = field(
            default=4.0,
            metadata={"doc": "but never more seconds than this, 0 or more; 0 is plain top-k"},
        )

        def __post_init__(self) -> None:
            check_ranges(self, gap_share=(0, 1))
            if not self.max_gap_s >= 0:
                raise InvalidOptionsError(
                    f"option 'max_gap_s' must not be negative: {self.max_gap_s}"
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
        """As `select`; the note says how far apart the frames are."""
        del scenes
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return NotedSelection(finalise([], video, budget))
        scores = usable_scores(video, self.encoder, query)
        if scores is None:
            rows = uniform_rows(num_rows, wanted)
            return NotedSelection(finalise(rows, video, budget), "no usable scores: uniform")
        times_s = video.timestamps_s[video.candidates]
        gap_s = least_gap_s(times_s, wanted, self.options.gap_share, self.options.max_gap_s)
        rows = nms_rows(scores, times_s, wanted, gap_s - TIME_ROUNDING_S)
        note = f"{len(rows)} frames at least {gap_s:.3g} s apart"
        return NotedSelection(finalise(rows, video, budget, scores), note)
