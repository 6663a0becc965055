"""Draws a comparison: the similarity over time, the shots, and every sampler's pictures.

Importing this file imports matplotlib (a second, 40 MB): only the process that draws does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import cv2
import numpy as np
from matplotlib import rc_context

from app.compare_canvas import Canvas, Ink, Pixels
from app.compare_documents import ComparedSamplerDocument, ComparisonDocument, SimilarityDocument
from app.compare_fonts import font_families
from app.compare_job import PictureFormat
from app.compare_layout import (
    LABEL_HEIGHT,
    LEFT,
    ROW_GAP,
    WIDTH,
    Box,
    RowLayout,
    TimeAxis,
    picture_place,
    row_layout,
)
from app.compare_text import (
    clock_text,
    readable,
    shortened,
    time_text,
    wrapped,
)
from shadow.report_timeline import axis_label_times

Thumbnails: TypeAlias = Callable[[int], Pixels | None]
"""uint8 `[H, W, 3]` of a frame index; None where there is no picture."""

DARK: Final = "#1d2733"
GREY: Final = "#5b6672"
PALE: Final = "#c9d0d7"
BAND: Final = "#eef1f4"
BETWEEN_BANDS: Final = "#dde3e9"
CURVE: Final = "#2f4b66"
ALARM: Final = "#a3231f"
ROW_COLOURS: Final = (
    *("#0072b2", "#c84e00", "#00845d", "#b0528d", "#7a6000", "#2f86b8"),
    *("#7f3c8d", "#b87700", "#3b6e22", "#a6192e", "#4f5d6b", "#1b1b1b"),
)
TITLE_COLUMNS: Final = 118
NOTE_COLUMNS: Final = 200
PANEL_HEIGHT: Final = 150
SAMPLE_WIDTH: Final = 28
"""Of a line or patch in the legend."""
DETAIL: Final = {PictureFormat.PNG: 1, PictureFormat.SVG: 2}
"""Pixels of a thumbnail by pixel of the picture: an SVG is zoomed into."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Cosines to heights inside a box."""

    low: float
    high: float

    def y(self, cosine: float, box: Box) -> float:
        share = (cosine - self.low) / (self.high - self.low)
        return box.bottom - min(1.0, max(0.0, share)) * box.height


def draw_comparison(
    compared: ComparisonDocument, thumbnails: Thumbnails, picture_format: PictureFormat
) -> bytes:
    """The picture. Blocks for a second and more; not for several threads."""
    with _style(_words(compared)):
        return _Drawing(compared, thumbnails, picture_format).drawn()


def _words(compared: ComparisonDocument) -> str:
    notes = [sampler.note or "" for sampler in compared.samplers]
    failures = [sampler.failure.message for sampler in compared.samplers if sampler.failure]
    return readable(" ".join([compared.question, *compared.warnings, *notes, *failures]))


@contextmanager
def _style(words: str) -> Iterator[None]:
    """Fonts for these words."""
    texts = rc_context(
        {
            "font.family": font_families(words),
            "font.enable_last_resort": True,
            # Users wrote the question: dollars in it are no formula.
            "text.parse_math": False,
        }
    )
    svg = rc_context({"svg.fonttype": "none", "svg.hashsalt": "framegate"})
    with texts, svg, warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


class _Drawing:
    """One picture in the making, from the top to the bottom."""

    def __init__(
        self,
        compared: ComparisonDocument,
        thumbnails: Thumbnails,
        picture_format: PictureFormat,
    ) -> None:
        self._compared = compared
        self._thumbnails = thumbnails
        self._format = picture_format
        self._axis = TimeAxis(compared.duration_s)
        self._scale = _scale_of(compared.similarity)
        self._place = picture_place(
            compared.width / compared.height,
            max((len(sampler.frames) for sampler in compared.samplers), default=1),
        )
        self._title = wrapped(readable(compared.question), TITLE_COLUMNS, 3)
        facts_top = 26 + 26 * len(self._title)
        self._facts_y = facts_top + 4
        self._panel = Box(
            LEFT, facts_top + 44 + 18 * len(compared.warnings), self._axis.width, PANEL_HEIGHT
        )
        self._rows = self._row_layouts()
        bottom = self._rows[-1].bottom if self._rows else self._panel.bottom
        self._canvas = Canvas(round(bottom) + 44)
        self._bottom = bottom

    def _row_layouts(self) -> list[RowLayout]:
        rows, top = [], self._panel.bottom + 40
        for sampler in self._compared.samplers:
            times_s = [frame.seconds for frame in sampler.frames]
            num_notes = 1 if sampler.note else 0
            rows.append(row_layout(times_s, self._axis, self._place, top, num_notes))
            top = rows[-1].bottom + ROW_GAP
        return rows

    def drawn(self) -> bytes:
        self._draw_head()
        self._draw_panel()
        colours = ROW_COLOURS * (1 + len(self._rows) // len(ROW_COLOURS))
        for sampler, row, colour in zip(self._compared.samplers, self._rows, colours, strict=False):
            self._draw_header(sampler, row, colour)
            if sampler.failure is None:
                self._draw_strip(sampler, row, colour)
                self._draw_pictures(sampler, row, colour)
            else:
                self._draw_failure(sampler, row)
        if self._rows:
            self._draw_times(self._bottom + 18)
        return self._canvas.saved(self._format)

    def _draw_head(self) -> None:
        compared, canvas = self._compared, self._canvas
        for number, line in enumerate(self._title):
            canvas.text((LEFT, 30 + 26 * number), line, Ink(DARK, 20, is_bold=True))
        facts = (
            f"video {compared.video_id[:12]}",
            f"{clock_text(compared.duration_s, compared.duration_s)} long",
            f"{compared.num_candidates:,} candidates",
            f"{len(compared.scenes):,} shots" if len(compared.scenes) != 1 else "1 shot",
            f"budget {compared.budget}" + (" frame" if compared.budget == 1 else " frames"),
            f"encoder {compared.encoder}",
        )
        canvas.text((LEFT, self._facts_y), "  ·  ".join(facts), Ink(GREY, 13))
        for number, warning in enumerate(compared.warnings):
            text = shortened(warning, NOTE_COLUMNS)
            canvas.text((LEFT, self._facts_y + 18 * (number + 1)), text, Ink(ALARM, 13))

    def _draw_panel(self) -> None:
        panel, canvas, curve = self._panel, self._canvas, self._compared.similarity
        title_y = panel.top - 12
        canvas.text((LEFT, title_y), "Similarity with the question (cosine)", Ink(DARK, 13, True))
        self._draw_legend(title_y)
        self._draw_bands(panel)
        if curve is None:
            middle = (panel.left + panel.width / 2, panel.top + panel.height / 2)
            canvas.text(middle, "not known: the question has no vector", Ink(GREY, 14), "center")
        else:
            for cosine in _nice_values(self._scale.low, self._scale.high):
                y = self._scale.y(cosine, panel)
                canvas.lines([[(panel.left, y), (panel.right, y)]], Ink(PALE, width=0.6))
                canvas.text((panel.left - 8, y), f"{cosine:.2f}", Ink(GREY, 11), "right")
            self._draw_curve(curve)
        canvas.frames([panel], Ink(PALE))
        self._draw_times(panel.bottom + 14)

    def _draw_curve(self, curve: SimilarityDocument) -> None:
        xs = [self._axis.x(seconds) for seconds in curve.seconds]

        def heights(cosines: Sequence[float]) -> list[float]:
            return [self._scale.y(cosine, self._panel) for cosine in cosines]

        if curve.lowest is not None and curve.highest is not None:
            low, high = heights(curve.lowest), heights(curve.highest)
            self._canvas.filled(xs, low, high, Ink(CURVE, alpha=0.25))
        line = list(zip(xs, heights(curve.cosines), strict=True))
        self._canvas.lines([line], Ink(CURVE, width=1.3))
        if len(line) == 1:
            self._canvas.dots(line, Ink(CURVE, 6))

    def _draw_legend(self, y: float) -> None:
        canvas, x = self._canvas, WIDTH - 24.0
        curve = self._compared.similarity
        is_grouped = curve is not None and curve.lowest is not None
        entries = (
            ("band", "shots, in turn light and dark"),
            ("tick", "a chosen frame: its time; the dot its similarity"),
            ("line", "similarity: mean, lowest to highest" if is_grouped else "similarity"),
        )
        for kind, words in entries:
            left, _ = canvas.ends(canvas.text((x, y), words, Ink(GREY, 12), "right"))
            self._draw_sample(kind, left - SAMPLE_WIDTH - 8, y)
            x = left - SAMPLE_WIDTH - 30

    def _draw_sample(self, kind: str, x: float, y: float) -> None:
        canvas = self._canvas
        middle, right = x + SAMPLE_WIDTH / 2, x + SAMPLE_WIDTH
        if kind == "band":
            canvas.rectangles([Box(x, y - 6, SAMPLE_WIDTH / 2, 12)], BETWEEN_BANDS)
            canvas.rectangles([Box(middle, y - 6, SAMPLE_WIDTH / 2, 12)], BAND)
        elif kind == "tick":
            canvas.lines([[(right - 4, y - 7), (right - 4, y + 7)]], Ink(ROW_COLOURS[0], width=1.4))
            canvas.dots([(right - 4, y - 2)], Ink(ROW_COLOURS[0], 5))
        else:
            canvas.lines([[(x, y), (right, y)]], Ink(CURVE, width=1.6))

    def _draw_bands(self, box: Box) -> None:
        self._canvas.rectangles([box], BAND)
        dark = [
            Box(x, box.top, self._axis.x(shot.end_s) - x, box.height)
            for shot in self._compared.scenes[1::2]
            for x in [self._axis.x(shot.start_s)]
        ]
        self._canvas.rectangles(dark, BETWEEN_BANDS)

    def _draw_times(self, y: float) -> None:
        duration_s = self._compared.duration_s
        for seconds in axis_label_times(duration_s):
            x = self._axis.x(seconds)
            self._canvas.lines([[(x, y - 13), (x, y - 8)]], Ink(GREY))
            self._canvas.text((x, y), clock_text(seconds, duration_s), Ink(GREY, 11), "center")

    def _draw_header(self, sampler: ComparedSamplerDocument, row: RowLayout, colour: str) -> None:
        y = row.header.top + 9
        name = shortened(sampler.id, 70)
        drawn = self._canvas.text((LEFT, y), name, Ink(colour, 16, is_bold=True))
        _, right = self._canvas.ends(drawn)
        words = "failed" if sampler.failure else _measures_text(sampler, self._compared)
        self._canvas.text((right + 14, y), words, Ink(GREY, 13))
        if sampler.note:
            note = shortened(sampler.note, NOTE_COLUMNS)
            self._canvas.text((LEFT, y + 19), note, Ink(GREY, 12))

    def _draw_failure(self, sampler: ComparedSamplerDocument, row: RowLayout) -> None:
        failure = sampler.failure
        if failure is None:
            return
        box = Box(LEFT, row.strip.top, row.strip.width, row.bottom - row.strip.top)
        self._canvas.rectangles([box], "#fbe9e7")
        message = shortened(failure.message, 170)
        text = f"{failure.kind}: {message}. In an answer, uniform would stand in."
        self._canvas.text((LEFT + 10, box.top + box.height / 2), text, Ink(ALARM, 13))

    def _draw_strip(self, sampler: ComparedSamplerDocument, row: RowLayout, colour: str) -> None:
        strip, curve = row.strip, self._compared.similarity
        self._draw_bands(strip)
        inside = Box(strip.left, strip.top + 3, strip.width, strip.height - 3)
        if curve is not None:
            xs = [self._axis.x(seconds) for seconds in curve.seconds]
            tops = [self._scale.y(cosine, inside) for cosine in curve.cosines]
            self._canvas.filled(xs, [strip.bottom] * len(xs), tops, Ink("#a9b4bf", alpha=0.8))
        self._canvas.lines(
            [[(pick.tick_x, strip.top), (pick.tick_x, strip.bottom)] for pick in row.picks],
            Ink(colour, width=1.2),
        )
        dots = [
            (pick.tick_x, self._scale.y(frame.cosine, inside))
            for pick, frame in zip(row.picks, sampler.frames, strict=True)
            if frame.cosine is not None
        ]
        if dots:
            self._canvas.dots(dots, Ink(colour, 5))

    def _draw_pictures(self, sampler: ComparedSamplerDocument, row: RowLayout, colour: str) -> None:
        canvas = self._canvas
        top = row.strip.bottom
        column_top = min(pick.box.top for pick in row.picks)
        canvas.lines(
            [[(pick.tick_x, top), (pick.leader_x, column_top)] for pick in row.picks],
            Ink(colour, width=0.9, alpha=0.6),
        )
        boxes = [pick.box for pick in row.picks]
        canvas.rectangles(boxes, "#39434d")
        for pick, frame in zip(row.picks, sampler.frames, strict=True):
            self._draw_picture(pick.box, frame.index)
        canvas.frames(boxes, Ink(colour, width=1.2))
        self._label_pictures(boxes, [frame.seconds for frame in sampler.frames])

    def _draw_picture(self, box: Box, index: int) -> None:
        pixels = self._thumbnails(index)
        if pixels is None:
            middle = (box.left + box.width / 2, box.top + box.height / 2)
            self._canvas.text(middle, "no picture", Ink("white", 10), "center")
            return
        inside = _fitted(box, pixels.shape[1] / pixels.shape[0])
        detail = DETAIL[self._format]
        size = (max(1, round(inside.width * detail)), max(1, round(inside.height * detail)))
        small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
        self._canvas.image(inside, np.asarray(small, dtype=np.uint8))

    def _label_pictures(self, boxes: list[Box], times_s: list[float]) -> None:
        duration_s = self._compared.duration_s
        size = 11.0 if self._place.width >= 64 else 9.0
        for box, seconds in zip(boxes, times_s, strict=True):
            below = (box.left + box.width / 2, box.bottom + LABEL_HEIGHT / 2 + 1)
            self._canvas.text(below, time_text(seconds, duration_s), Ink(GREY, size), "center")


def _fitted(box: Box, aspect: float) -> Box:
    """The largest box of this width by height in the middle of `box`, on whole pixels."""
    width = min(box.width, box.height * aspect)
    height = width / aspect
    left = box.left + (box.width - width) / 2
    top = box.top + (box.height - height) / 2
    return Box(round(left), round(top), max(1, round(width)), max(1, round(height)))


def _scale_of(curve: SimilarityDocument | None) -> _Scale:
    if curve is None:
        return _Scale(0.0, 1.0)
    low = min(curve.lowest or curve.cosines)
    high = max(curve.highest or curve.cosines)
    room = max(0.05 * (high - low), 0.005)
    return _Scale(low - room, high + room)


def _nice_values(low: float, high: float) -> list[float]:
    """Three to six round values between these."""
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if (high - low) / s < 6)
    first = int(np.ceil(low / step))
    return [step * k for k in range(first, int(np.floor(high / step)) + 1)]


def _measures_text(sampler: ComparedSamplerDocument, compared: ComparisonDocument) -> str:
    first = compared.samplers[0]
    num_frames = len(sampler.frames)
    words = [f"{num_frames} frame" if num_frames == 1 else f"{num_frames} frames"]
    if sampler.relevance is not None:
        words.append(f"relevance {sampler.relevance:.3f}")
    if sampler.redundancy is not None:
        words.append(f"redundancy {sampler.redundancy:.3f}")
    if sampler.scene_coverage is not None:
        words.append(f"shots covered {sampler.scene_coverage:.0%}")
    if sampler is not first and sampler.distance_s is not None:
        words.append(f"{sampler.distance_s:.2f} s from {shortened(first.id, 30)}")
    words.append(f"{sampler.latency_s * 1000:.1f} ms")
    if sampler.scorer is not None:
        words.append(f"{sampler.scorer.calls} model calls")
    return "  ·  ".join(words)
