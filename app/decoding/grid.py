"""Which frames are candidates: the sampling grid and its fps policy.

The definition: for k = 0, 1, … while k/fps <= the last timestamp, the frame shown at second k/fps;
duplicates dropped. The fps starts at `fps_max` and is halved each time there are more than `target`
candidates, as long as it stays at or above `fps_min`. `CandidateGrid` finds exactly these in one
pass, without knowing the video's length.
"""

from __future__ import annotations

import array
import math
from dataclasses import dataclass

import numpy as np

from samplers.contract import IndexArray


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPolicy:
    """Where the grid's fps starts, where halving ends and what starts it."""

    fps_max: float
    fps_min: float
    target: int


class CandidateGrid:
    """Admits frames in presentation order; 24 bytes a candidate are all it keeps.

    Each row remembers the first and the last grid point (k) at which its frame is shown. Halving
    the fps keeps the even grid points, so a row stays exactly when one of its points is even: that
    is why the result equals the definition at the lower fps, though row k need not be second k/fps.
    """

    def __init__(self, policy: GridPolicy) -> None:
        self._policy = policy
        self.fps = policy.fps_max
        self._frames = array.array("q")
        self._first = array.array("q")
        self._last = array.array("q")

    def __len__(self) -> int:
        return len(self._frames)

    def admit(self, frame_index: int, from_s: float, until_s: float) -> bool:
        """Whether the frame shown in `from_s <= t < until_s` is a candidate, and so a new row."""
        first = _first_k(from_s, self.fps)
        return self._add(frame_index, first, _first_k(until_s, self.fps) - 1)

    def admit_last(self, frame_index: int, time_s: float) -> bool:
        """The same for the last frame: the grid ends at its timestamp."""
        first = _first_k(time_s, self.fps)
        return self._add(frame_index, first, first if first / self.fps == time_s else first - 1)

    def halve_when_full(self) -> list[int] | None:
        """Halve the fps if there are too many rows. The rows that stay, or None when all do."""
        if len(self) <= self._policy.target or self.fps / 2 < self._policy.fps_min:
            return None
        self.fps /= 2
        kept = [
            row
            for row in range(len(self))
            if self._first[row] % 2 == 0 or self._first[row] < self._last[row]
        ]
        self._frames = array.array("q", (self._frames[row] for row in kept))
        self._first = array.array("q", (-(-self._first[row] // 2) for row in kept))
        self._last = array.array("q", (self._last[row] // 2 for row in kept))
        return kept

    def candidates(self) -> IndexArray:
        """int64 `[C]`, the frame of every row."""
        return np.array(self._frames, dtype=np.int64)

    def _add(self, frame_index: int, first: int, last: int) -> bool:
        if last < first:
            return False
        self._frames.append(frame_index)
        self._first.append(first)
        self._last.append(last)
        return True


def _first_k(time_s: float, fps: float) -> int:
    """The smallest k with k/fps >= time_s, in the same floating point as the definition."""
    k = math.ceil(time_s * fps)
    while k > 0 and (k - 1) / fps >= time_s:
        k -= 1
    while k / fps < time_s:
        k += 1
    return k
