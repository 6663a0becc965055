"""Seconds of every frame: strictly increasing, zero at the first shown frame, from pts alone."""

from __future__ import annotations

import array
import math
import statistics
from collections import deque
from fractions import Fraction
from itertools import pairwise

import numpy as np

from samplers.contract import TimeArray

PTS_IN_MEDIAN = 255
FALLBACK_INTERVAL_S = 1 / 25
LONGEST_S = 1e8
"""A pts that claims more than three years counts as missing."""


class FrameClock:
    """Collects one time per frame, eight bytes each.

    A pts that is missing or does not advance becomes the last time plus the median interval: of
    the latest 255 pts, put in order, because where pts go back and forth (AVI with B-frames) only
    their order is wrong. Without two pts it is the header's frame interval, or 1/25 s; headers are
    never trusted beyond that. Later pts count again as soon as they are ahead.
    """

    def __init__(self, time_base: Fraction | None, header_rate: Fraction | None) -> None:
        self._time_base = time_base or Fraction(0)
        self._header_interval_s = _plausible_interval_s(header_rate)
        self._times = array.array("d")
        self._latest_pts: deque[int] = deque(maxlen=PTS_IN_MEDIAN)
        self._origin_pts: int | None = None
        self._origin_s = 0.0
        self.num_repaired = 0

    def __len__(self) -> int:
        return len(self._times)

    def tick(self, pts: int | None) -> float:
        """The time of the next frame in presentation order, whose file time is `pts`."""
        if pts is not None:
            self._latest_pts.append(pts)
        time_s = self._from_pts(pts)
        if not self._times:
            time_s = 0.0
        elif time_s is None or time_s <= self._times[-1]:
            time_s = self._repaired()
        if pts is not None and self._origin_pts is None:
            self._origin_pts, self._origin_s = pts, time_s
        self._times.append(time_s)
        return time_s

    @property
    def start_s(self) -> float:
        """The file's own time of the first shown frame; 0.0 when no frame has one."""
        if self._origin_pts is None:
            return 0.0
        return float(self._origin_pts * self._time_base) - self._origin_s

    @property
    def duration_s(self) -> float:
        """The last frame's time plus the median interval of the latest frames."""
        return self._times[-1] + self._interval_s() if self._times else 0.0

    def timestamps_s(self) -> TimeArray:
        """float64 `[T]`."""
        return np.array(self._times, dtype=np.float64)

    def _from_pts(self, pts: int | None) -> float | None:
        if pts is None:
            return None
        if self._origin_pts is None:
            # The frames before it had no pts: it simply follows them.
            return None
        ticks = (pts - self._origin_pts) * self._time_base.numerator
        # One division of integers, so that a pts on a full second gives that second exactly.
        time_s = self._origin_s + ticks / self._time_base.denominator
        return time_s if time_s <= LONGEST_S else None

    def _repaired(self) -> float:
        self.num_repaired += 1
        last_s = self._times[-1]
        return max(last_s + self._interval_s(), math.nextafter(last_s, math.inf))

    def _interval_s(self) -> float:
        ordered = sorted(self._latest_pts)
        gaps = [later - earlier for earlier, later in pairwise(ordered) if later > earlier]
        if not gaps:
            return self._header_interval_s
        return float(statistics.median_low(gaps) * self._time_base)


def _plausible_interval_s(header_rate: Fraction | None) -> float:
    if header_rate is None or not Fraction(1, 10) <= header_rate <= 1000:
        return FALLBACK_INTERVAL_S
    return float(1 / header_rate)
