"""`uniform`: evenly spread frames. The baseline: rollback, kill switch and failures lead here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from samplers.contract import FrameScorer, SamplerOptions, Scene, VideoHandle
from samplers.selection import finalise, num_wanted, uniform_rows


@dataclass(frozen=True, slots=True)
class UniformSampler:
    """Evenly spread candidates; ignores the question, the shots and every feature. O(budget)."""

    id: ClassVar[str] = "uniform"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = False

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How the even spread is laid out."""

        mode: Literal["centre", "endpoints"] = field(
            default="centre",
            metadata={
                "doc": "centre: the middles of equal bins; endpoints: first and last candidate "
                "included, the convention behind most published `uniform` figures"
            },
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
        """`min(budget, C)` evenly spread frame indices."""
        del query, scenes
        rows = uniform_rows(len(video.candidates), num_wanted(video, budget), self.options.mode)
        return finalise(rows, video, budget)
