"""Where everything stands in the picture of a comparison. Pure; pixels from the top left corner.

A sampler's pictures stand in columns on the common time axis: neighbours in time share a column
only where there are more of them than columns, and read from the top. Columns keep the order of
time and never overlap, so that the lines from the ticks to the pictures never cross.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shadow.report_timeline import place_pictures

WIDTH: Final = 1600
LEFT: Final = 56
"""Room for the similarity's axis; everything on the time axis begins here."""
RIGHT: Final = 24
GAP: Final = 6
MIN_COLUMNS: Final = 16
MAX_PICTURE_WIDTH: Final = 176
MAX_PICTURE_HEIGHT: Final = 104
FLATTEST: Final = 3.0
"""Width by height of a picture's place; pictures beyond are shown whole, with room around."""
TALLEST: Final = 0.5
HEADER_HEIGHT: Final = 20
NOTE_HEIGHT: Final = 16
STRIP_HEIGHT: Final = 26
LEADER_HEIGHT: Final = 20
LABEL_HEIGHT: Final = 14
"""Below each picture, for its time."""
FAILURE_HEIGHT: Final = 28
ROW_GAP: Final = 18


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of pixels."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


@dataclass(frozen=True, slots=True)
class PicturePlace:
    """The place of every picture of a comparison, the same for all its samplers."""

    width: int
    height: int
    num_columns: int
    """So many fit side by side."""


@dataclass(frozen=True, slots=True)
class PlacedPick:
    """One chosen frame: its tick, its picture, and where the line between them ends.

    The picture's time stands in the `LABEL_HEIGHT` below its box.
    """

    tick_x: float
    leader_x: float
    box: Box


@dataclass(frozen=True, slots=True)
class RowLayout:
    """One sampler's row."""

    header: Box
    strip: Box
    """The time axis of the row, with its ticks."""
    picks: tuple[PlacedPick, ...]
    bottom: float


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Seconds to pixels."""

    duration_s: float
    left: float = LEFT
    width: float = WIDTH - LEFT - RIGHT

    def share(self, seconds: float) -> float:
        """Of the axis, 0..1."""
        return min(1.0, max(0.0, seconds / self.duration_s)) if self.duration_s > 0 else 0.0

    def x(self, seconds: float) -> float:
        return self.left + self.share(seconds) * self.width


def picture_place(aspect: float, most_picks: int) -> PicturePlace:
    """As large as fits, `aspect` being width by height and `most_picks` those of one sampler."""
    shape = min(FLATTEST, max(TALLEST, aspect))
    axis_width = TimeAxis(1.0).width
    side_by_side = min(max(most_picks, 1), MIN_COLUMNS)
    width = min(
        MAX_PICTURE_WIDTH, int(MAX_PICTURE_HEIGHT * shape), int(axis_width / side_by_side) - GAP
    )
    return PicturePlace(width, round(width / shape), int(axis_width // (width + GAP)))


def row_layout(
    times_s: Sequence[float], axis: TimeAxis, place: PicturePlace, top: float, num_notes: int
) -> RowLayout:
    """`times_s` ascending; with none of them the row holds the room to say why."""
    header = Box(LEFT, top, axis.width, HEADER_HEIGHT + num_notes * NOTE_HEIGHT)
    strip = Box(LEFT, header.bottom + 4, axis.width, STRIP_HEIGHT)
    if not times_s:
        return RowLayout(header, strip, (), strip.top + FAILURE_HEIGHT)
    picks = place_picks(times_s, axis, place, strip.bottom + LEADER_HEIGHT)
    return RowLayout(header, strip, picks, max(pick.box.bottom for pick in picks) + LABEL_HEIGHT)


def place_picks(
    times_s: Sequence[float], axis: TimeAxis, place: PicturePlace, top: float
) -> tuple[PlacedPick, ...]:
    """The boxes of the pictures of these ascending times, in the same order."""
    shares = [axis.share(seconds) for seconds in times_s]
    columns = grouped(shares, place.num_columns)
    centres = [sum(shares[k] for k in column) / len(column) for column in columns]
    pitch = (place.width + GAP) / axis.width
    lane_height = place.height + LABEL_HEIGHT + GAP
    placed = place_pictures(centres, place.width / axis.width, pitch - place.width / axis.width)
    picks = []
    for column, left in zip(columns, placed.lefts, strict=True):
        x = axis.left + left * axis.width
        for number, k in enumerate(column):
            box = Box(x, top + number * lane_height, place.width, place.height)
            leader_x = x + (number + 0.5) / len(column) * place.width
            picks.append(PlacedPick(axis.x(times_s[k]), leader_x, box))
    return tuple(picks)


def grouped(shares: Sequence[float], num_columns: int) -> list[range]:
    """Runs of neighbours: at most `num_columns`, none longer than it must be for that.

    Among those the one with the least squared distance of the shares from their run's mean.
    O(N · columns · run).
    """
    most = math.ceil(len(shares) / num_columns)
    if most <= 1:
        return [range(k, k + 1) for k in range(len(shares))]
    sums, squares = _prefix(shares), _prefix([share * share for share in shares])

    def scatter(start: int, end: int) -> float:
        total = sums[end] - sums[start]
        return squares[end] - squares[start] - total * total / (end - start)

    # best[k][end]: the first `end` shares in k runs, and where the last of them starts.
    best: list[list[tuple[float, int]]] = [[(0.0, 0)] + [(math.inf, 0)] * len(shares)]
    for _ in range(num_columns):
        before = best[-1]
        best.append(
            [(math.inf, 0)]
            + [
                min(
                    (before[start][0] + scatter(start, end), start)
                    for start in range(max(0, end - most), end)
                )
                for end in range(1, len(shares) + 1)
            ]
        )
    return _runs(best, len(shares))


def _prefix(values: Sequence[float]) -> list[float]:
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return sums


def _runs(best: list[list[tuple[float, int]]], end: int) -> list[range]:
    """Read backwards from the cheapest number of runs."""
    k = min(range(len(best)), key=lambda number: best[number][end][0])
    runs = []
    while end > 0:
        start = best[k][end][1]
        runs.append(range(start, end))
        end, k = start, k - 1
    return runs[::-1]
