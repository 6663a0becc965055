"""A shadow report as one HTML page that needs nothing else: no script, no address, no font.

Whatever users wrote (questions, answers) is escaped by the template, and the page's own content
policy lets nothing run and nothing load. Importing this file imports matplotlib.
"""

from __future__ import annotations

import base64
import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from shadow import report_text
from shadow.report_document import (
    ChosenFrame,
    Disagreement,
    DisagreementSide,
    MeasureReport,
    ShadowReport,
)
from shadow.report_plots import measure_svg
from shadow.report_timeline import (
    MAX_PICTURES,
    axis_label_times,
    evenly_chosen,
    place_pictures,
)

TEMPLATES: Final = ("report.html.j2", "report_macros.html.j2", "report.css")
MAX_PLOTTED_PAIRS: Final = 4
LONG_QUESTION_CHARS: Final = 240
PICTURE_PITCH_PX: Final = 64
LONG_VIDEO_S: Final = 600.0
"""Tenths of seconds are left out from here on."""


class Pictures(Protocol):
    """Small pictures of frames."""

    def thumbnail(self, video_id: str, frame_index: int) -> bytes | None:
        """A JPEG of a few kilobytes; None where the video's pictures are gone. Blocks on disk."""
        ...


@dataclass(frozen=True, slots=True)
class PageLimits:
    """All pictures of a page together; frames beyond them stand on the axis without a picture."""

    num_pictures: int = 400
    picture_bytes: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Box:
    """A picture's place in its row, and the frame's place on the axis, in per cent."""

    left: float
    width: float
    at: float
    clock: str
    frame: ChosenFrame
    address: str | None
    """A data URI."""

    @property
    def centre(self) -> float:
        return self.left + self.width / 2


@dataclass(frozen=True, slots=True)
class _Row:
    side: DisagreementSide
    boxes: list[_Box]
    ticks: list[tuple[float, bool]]
    """Per cent on the axis, and whether the other side chose the frame, too; of every frame."""
    height: float
    """Of the pictures, for the row's width of 100."""

    @property
    def num_without_picture(self) -> int:
        return len(self.ticks) - len(self.boxes)


@dataclass(frozen=True, slots=True)
class _Timeline:
    control: _Row
    shadow: _Row
    labels: list[tuple[float, str]]

    @property
    def min_width_px(self) -> int:
        """Narrower screens scroll it: pictures stay large enough to be seen."""
        num_boxes = max(len(self.control.boxes), len(self.shadow.boxes))
        return max(480, PICTURE_PITCH_PX * num_boxes)


class _PictureAddresses:
    """Thumbnails as data URIs, until the page's limits are reached."""

    def __init__(self, pictures: Pictures, limits: PageLimits) -> None:
        self._pictures = pictures
        self._num_left = limits.num_pictures
        self._bytes_left = limits.picture_bytes

    def address(self, video_id: str, frame_index: int) -> str | None:
        if not self._num_left:
            return None
        jpeg = self._pictures.thumbnail(video_id, frame_index)
        if jpeg is None or len(jpeg) > self._bytes_left:
            return None
        self._num_left -= 1
        self._bytes_left -= len(jpeg)
        return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


def render_page(report: ShadowReport, pictures: Pictures, limits: PageLimits | None = None) -> str:
    """The HTML text. Blocks for some seconds: every plot and every thumbnail is made here."""
    addresses = _PictureAddresses(pictures, limits or PageLimits())
    num_plotted = MAX_PLOTTED_PAIRS

    def timeline(disagreement: Disagreement) -> _Timeline:
        return _timeline(disagreement, addresses)

    environment = _environment()
    environment.globals |= {"timeline": timeline, "svg": _svg, "num_plotted": num_plotted}
    return environment.get_template("report.html.j2").render(report=report)


def _environment() -> Environment:
    folder = importlib.resources.files("shadow")
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in TEMPLATES}
    environment = Environment(
        loader=DictLoader(texts),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"LONG_QUESTION_CHARS": LONG_QUESTION_CHARS}
    environment.filters |= {
        "value": report_text.value_text,
        "clock": report_text.clock_text,
        "seconds": report_text.seconds_text,
        "count": report_text.count_text,
        "moment": report_text.moment_text,
    }
    environment.globals["bounds"] = report_text.bounds_text
    return environment


def _svg(measure: MeasureReport) -> Markup:
    # Made of numbers and of our own words only.
    return Markup(measure_svg(measure))


def _timeline(disagreement: Disagreement, addresses: _PictureAddresses) -> _Timeline:
    sides = (disagreement.control, disagreement.shadow)
    last_s = max((frame.seconds for side in sides for frame in side.frames), default=0.0)
    span_s = max(disagreement.video_seconds, last_s, 1e-3)
    control, shadow = (_row(side, disagreement.video_id, span_s, addresses) for side in sides)
    labels = [(100 * at / span_s, report_text.clock_text(at)) for at in axis_label_times(span_s)]
    return _Timeline(control, shadow, labels)


def _row(
    side: DisagreementSide, video_id: str, span_s: float, addresses: _PictureAddresses
) -> _Row:
    shown = [side.frames[k] for k in evenly_chosen(len(side.frames), MAX_PICTURES)]
    places = [max(0.0, frame.seconds) / span_s for frame in shown]
    placed = place_pictures(places)
    boxes = [
        _Box(
            left=100 * left,
            width=100 * placed.width,
            at=100 * place,
            clock=report_text.clock_text(frame.seconds, with_tenths=span_s < LONG_VIDEO_S),
            frame=frame,
            address=addresses.address(video_id, frame.index),
        )
        for frame, place, left in zip(shown, places, placed.lefts, strict=True)
    ]
    return _Row(side, boxes, _ticks(side.frames, span_s), 100 * placed.width * 9 / 16)


def _ticks(frames: Sequence[ChosenFrame], span_s: float) -> list[tuple[float, bool]]:
    return [(100 * max(0.0, frame.seconds) / span_s, frame.is_shared) for frame in frames]
