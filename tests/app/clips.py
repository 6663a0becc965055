"""Makes small test clips whose pictures carry their frame number: index errors become visible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.stream import Disposition

from app.decoding.job import DecodeConfig, DecodeJob

Picture = npt.NDArray[np.uint8]
MILLISECOND = Fraction(1, 1000)
COLUMNS, ROWS = 4, 3
BLACK, WHITE = 16, 235
MIB = 1024 * 1024
DEFAULTS = DecodeConfig(
    max_frame_pixels=4096 * 2048,
    max_total_pixels=10**12,
    timeout_s=60.0,
    memory_bytes=1024 * MIB,
    threads=2,
    picture_side_px=512,
    picture_quality=85,
    fps_max=8.0,
    fps_min=1.0,
    candidate_target=128,
)


@dataclass(frozen=True, kw_only=True)
class ClipStyle:
    """How a clip is stored."""

    codec: str = "libx264"
    pts_ms: Sequence[int] | None = None
    """Of every picture; default: ten frames a second."""
    rotation: int = 0
    """Counter-clockwise degrees in the display matrix."""
    is_mirrored: bool = False
    pixel_aspect: Fraction | None = None
    has_cover: bool = False
    is_faststart: bool = False
    """The index of an MP4 comes first, so that a cut-off file still opens."""
    format: str | None = None


def numbered(number: int, width: int = 160, height: int = 96) -> Picture:
    """uint8 `[height, width, 3]`: twelve black or white fields, the bits of `number`."""
    picture = np.full((height, width, 3), BLACK, dtype=np.uint8)
    for bit in range(COLUMNS * ROWS):
        if number >> bit & 1:
            row, column = divmod(bit, COLUMNS)
            rows = slice(row * height // ROWS, (row + 1) * height // ROWS)
            columns = slice(column * width // COLUMNS, (column + 1) * width // COLUMNS)
            picture[rows, columns] = WHITE
    return picture


def number_in(picture: Picture) -> int:
    """The number that `numbered` put into a picture of whatever size."""
    height, width = picture.shape[:2]
    number = 0
    for bit in range(COLUMNS * ROWS):
        row, column = divmod(bit, COLUMNS)
        y, x = (2 * row + 1) * height // (2 * ROWS), (2 * column + 1) * width // (2 * COLUMNS)
        number |= int(picture[y, x].mean() > 128) << bit
    return number


def plain(colour: tuple[int, int, int], width: int = 160, height: int = 96) -> Picture:
    """uint8 `[height, width, 3]` of one RGB colour."""
    return np.full((height, width, 3), colour, dtype=np.uint8)


def write_clip(path: Path, pictures: Iterable[Picture], style: ClipStyle | None = None) -> Path:
    """Encode the pictures into `path`; the container follows the file's name."""
    style = style or ClipStyle()
    options = {"movflags": "faststart"} if style.is_faststart else {}
    with av.open(str(path), "w", format=style.format, options=options) as container:
        stream = None
        for index, picture in enumerate(pictures):
            if stream is None:
                stream = _add_stream(container, picture, style)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = style.pts_ms[index] if style.pts_ms else index * 100
            frame.time_base = MILLISECOND
            container.mux(stream.encode(frame))
        if stream is None:
            raise ValueError("a clip needs pictures")
        container.mux(stream.encode(None))
        if style.has_cover:
            _mux_cover(container)
    return path


def write_two_streams(path: Path, first: Sequence[Picture], second: Sequence[Picture]) -> Path:
    """A file with two video streams, interleaved."""
    with av.open(str(path), "w") as container:
        streams = [_add_stream(container, pictures[0], ClipStyle()) for pictures in (first, second)]
        for stream, pictures in zip(streams, (first, second), strict=True):
            for index, picture in enumerate(pictures):
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                frame.pts, frame.time_base = index * 100, MILLISECOND
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    return path


def write_audio_only(path: Path) -> Path:
    """A second of silence."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16_000, layout="mono")
        for start in range(0, 16_000, 1024):
            silence = np.zeros((1, 1024), dtype=np.float32)
            frame = av.AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
            frame.rate, frame.pts = 16_000, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def config(**changes: Any) -> DecodeConfig:
    """The service's defaults with some fields changed."""
    return replace(DEFAULTS, **changes)


def job_for(source: Path, folder: Path, settings: DecodeConfig | None = None) -> DecodeJob:
    """A job that decodes `source` into a new folder."""
    folder.mkdir(parents=True)
    return DecodeJob(
        video_id="0" * 64,
        source=source,
        folder=folder,
        parent_pid=1,
        trace_context={},
        config=settings or config(),
    )


def _add_stream(
    container: av.container.OutputContainer, picture: Picture, style: ClipStyle
) -> av.VideoStream:
    stream = container.add_stream(style.codec, rate=10)
    if not isinstance(stream, av.VideoStream):
        raise TypeError(f"{style.codec} is no video codec")
    stream.height, stream.width = picture.shape[:2]
    stream.pix_fmt = "rgb24" if style.codec == "png" else "yuv420p"
    stream.codec_context.time_base = MILLISECOND
    if style.pixel_aspect is not None:
        stream.codec_context.sample_aspect_ratio = style.pixel_aspect
    if style.rotation or style.is_mirrored:
        stream.set_display_rotation(style.rotation, hflip=style.is_mirrored)
    if style.has_cover:
        cover = container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "yuvj420p"
        cover.disposition = Disposition.attached_pic
    return stream


def _mux_cover(container: av.container.OutputContainer) -> None:
    cover = container.streams.video[1]
    frame = av.VideoFrame.from_ndarray(plain((9, 99, 199), 64, 64), format="rgb24")
    frame.pts = 0
    container.mux(cover.encode(frame))
    container.mux(cover.encode(None))
