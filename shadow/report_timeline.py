"""Where frames, pictures and labels stand along a video's time axis. Positions are shares 0..1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_PICTURES: Final = 16
MAX_PICTURE_WIDTH: Final = 0.13
GAP: Final = 0.008
MAX_LABELS: Final = 8
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)


@dataclass(frozen=True, slots=True)
class PlacedPictures:
    """Non-overlapping boxes of one width, in order, each as near its time as there is room."""

    width: float
    lefts: list[float]


def place_pictures(
    times: Sequence[float], max_width: float = MAX_PICTURE_WIDTH, gap: float = GAP
) -> PlacedPictures:
    """Boxes for pictures at these ascending shares of the axis; least squares of displacement."""
    if not times:
        return PlacedPictures(max_width, [])
    pitch = min(max_width + gap, 1 / len(times))
    width = pitch - gap
    # Without its place in the row a box may not lie left of the one before it: isotonic regression.
    wanted = [time - width / 2 - number * pitch for number, time in enumerate(times)]
    last = 1 - width - (len(times) - 1) * pitch
    fitted = [min(max(left, 0.0), max(last, 0.0)) for left in _isotonic(wanted)]
    return PlacedPictures(width, [left + number * pitch for number, left in enumerate(fitted)])


def _isotonic(values: Sequence[float]) -> list[float]:
    """The non-decreasing row that is nearest in squares: neighbours that violate it are pooled."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            pooled_total, pooled_count = blocks.pop()
            total, count = total + pooled_total, count + pooled_count
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]


def evenly_chosen(num_all: int, num_wanted: int) -> list[int]:
    """Positions of at most so many of `num_all` things, first and last among them."""
    if num_all <= num_wanted:
        return list(range(num_all))
    return [round(k * (num_all - 1) / (num_wanted - 1)) for k in range(num_wanted)]


def axis_label_times(video_seconds: float) -> list[float]:
    """Round times, at most `MAX_LABELS`, from 0 to the end of the video."""
    steps = (step for step in _STEPS_S if video_seconds / step <= MAX_LABELS - 1)
    step = next(steps, max(1.0, video_seconds))
    return [float(step * k) for k in range(int(video_seconds / step) + 1)]
