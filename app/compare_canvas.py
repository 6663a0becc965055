"""A drawing in pixels from the top left corner, on matplotlib.

Importing this file imports matplotlib (a second, 40 MB): only the process that draws does.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from app.compare_job import PictureFormat
from app.compare_layout import WIDTH, Box

DPI: Final = 100
POINTS_PER_PIXEL: Final = 72 / DPI
UNWRITTEN: Final = {
    PictureFormat.PNG: ("Software",),
    PictureFormat.SVG: ("Date", "Creator", "Format", "Type"),
}
"""Dates and names of programs, which would make every picture another one."""
SVG_FONTS: Final = (
    b"font-family: 'DejaVu Sans'",
    b"font-family: 'DejaVu Sans', Verdana, sans-serif",
)
"""For viewers without the first: the next one is as wide."""

Pixels: TypeAlias = npt.NDArray[np.uint8]
"""uint8 `[H, W, 3]`."""
Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Ink:
    """How a text or a line looks."""

    colour: str
    size: float = 12.0
    """Of a text: pixels."""
    is_bold: bool = False
    width: float = 1.0
    """Of a line: pixels."""
    alpha: float = 1.0


class Canvas:
    """What is drawn later lies above."""

    def __init__(self, height: int) -> None:
        self._figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor="white")
        # Keeps one renderer, where else each text that is measured would have its own, and 40 MB.
        FigureCanvasAgg(self._figure)
        self._axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self._axes.set_xlim(0, WIDTH)
        self._axes.set_ylim(height, 0)
        self._axes.axis("off")
        self._order = 0

    def text(
        self, at: Point, text: str, ink: Ink, align: Literal["left", "center", "right"] = "left"
    ) -> Text:
        """Centred on the height of `at`."""
        return self._axes.text(
            *at,
            text,
            color=ink.colour,
            fontsize=ink.size * POINTS_PER_PIXEL,
            fontweight="bold" if ink.is_bold else "normal",
            ha=align,
            va="center_baseline",
            zorder=self._above(),
        )

    @staticmethod
    def ends(drawn: Text) -> tuple[float, float]:
        """The x at which a text begins and ends."""
        extent = drawn.get_window_extent()
        return float(extent.x0), float(extent.x1)

    def rectangles(self, boxes: Sequence[Box], colour: str) -> None:
        self._axes.add_collection(
            PolyCollection(
                [_corners(box) for box in boxes],
                facecolors=colour,
                edgecolors="none",
                antialiaseds=False,
                zorder=self._above(),
            ),
            autolim=False,
        )

    def frames(self, boxes: Sequence[Box], ink: Ink) -> None:
        """Their edges."""
        self.lines([[*_corners(box), (box.left, box.top)] for box in boxes], ink)

    def lines(self, lines: Sequence[Sequence[Point]], ink: Ink) -> None:
        self._axes.add_collection(
            LineCollection(
                [np.asarray(line) for line in lines],
                colors=ink.colour,
                linewidths=ink.width * POINTS_PER_PIXEL,
                alpha=ink.alpha,
                capstyle="butt",
                zorder=self._above(),
            ),
            autolim=False,
        )

    def dots(self, points: Sequence[Point], ink: Ink) -> None:
        """Filled circles, `ink.size` pixels wide."""
        xs, ys = zip(*points, strict=True)
        self._axes.plot(
            xs,
            ys,
            linestyle="none",
            marker="o",
            markersize=ink.size * POINTS_PER_PIXEL,
            markeredgewidth=0,
            color=ink.colour,
            zorder=self._above(),
        )

    def filled(
        self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], ink: Ink
    ) -> None:
        """The area between two curves."""
        self._axes.fill_between(
            xs, low, high, color=ink.colour, alpha=ink.alpha, linewidth=0, zorder=self._above()
        )

    def image(self, box: Box, pixels: Pixels) -> None:
        self._axes.imshow(
            pixels,
            extent=(box.left, box.right, box.bottom, box.top),
            aspect="auto",
            interpolation="none",
            zorder=self._above(),
        )

    def saved(self, picture_format: PictureFormat) -> bytes:
        buffer = io.BytesIO()
        # Dates and names of programs would make every picture another one.
        names = (
            ("Date", "Creator", "Format", "Type")
            if picture_format is PictureFormat.SVG
            else ("Software",)
        )
        self._figure.savefig(
            buffer, format=str(picture_format), dpi=DPI, metadata=dict.fromkeys(names)
        )
        picture = buffer.getvalue()
        if picture_format is PictureFormat.PNG:
            return picture
        # For viewers without that font: the next one is as wide.
        return picture.replace(
            b"font-family: 'DejaVu Sans'", b"font-family: 'DejaVu Sans', Verdana, sans-serif"
        )

    def _above(self) -> int:
        self._order += 1
        return self._order


def _corners(box: Box) -> list[Point]:
    return [
        (box.left, box.top),
        (box.right, box.top),
        (box.right, box.bottom),
        (box.left, box.bottom),
    ]
