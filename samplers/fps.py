"""`fps`: one frame every 1/fps seconds; a short video gets fewer frames than the budget allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from samplers.contract import (
    FrameScorer,
    IndexArray,
    InvalidOptionsError,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.selection import capped_rows, frame_indices

# Products of seconds and rates that should be whole numbers miss them by less than this.
ROUNDING = 1e-9


def rows_at_rate(times_s: TimeArray, end_s: float, fps: float) -> IndexArray:
    """int64 rows nearest to the ticks 0, 1/fps, 2/fps, ... <= `end_s`; a tie: the earlier row.

    `times_s` is float64 `[C]`, strictly increasing. Counted per row (a row is taken when a tick
    lies between the middles to its neighbours), so that the cost is O(C) at any rate.
    """
    middles_s = (times_s[:-1] + times_s[1:]) / 2
    cell_ends_s = np.append(middles_s, max(end_s, times_s[-1]))
    last_tick = np.floor(cell_ends_s * fps + ROUNDING)
    return np.flatnonzero(np.diff(last_tick, prepend=-1.0) > 0)


@dataclass(frozen=True, slots=True)
class FpsSampler:
    """A fixed number of frames per second of video, thinned evenly above the budget."""

    id: ClassVar[str] = "fps"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = False
    uses_query: ClassVar[bool] = False

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """The wanted rate."""

        fps: float = field(
            default=1.0,
            metadata={"doc": "frames wanted per second of video; at most every candidate is taken"},
        )

        def __post_init__(self) -> None:
            if not 0 < self.fps <= 1000:
                raise InvalidOptionsError(f"option 'fps' must lie in (0, 1000], not {self.fps}")

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
        """Between 1 and `min(budget, C)` frame indices at the wanted rate."""
        del query, scenes
        if len(video.candidates) == 0:
            return []
        times_s = video.timestamps_s[video.candidates]
        rows = rows_at_rate(times_s, float(video.timestamps_s[-1]), self.options.fps)
        return frame_indices(capped_rows(rows, video, budget), video)
