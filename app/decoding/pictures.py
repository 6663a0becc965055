"""Turns a decoded frame into the stored picture: upright, square pixels, bounded side, JPEG.

Everything here is part of the decode version: raise `DECODE_BEHAVIOUR` when a pixel would change.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from av.buffer import Buffer
from av.video.frame import VideoFrame
from av.video.reformatter import ColorTrc, Interpolation, VideoReformatter
from PIL import Image

HDR_TRANSFERS = (ColorTrc.SMPTE2084, ColorTrc.ARIB_STD_B67)
LARGEST_PIXEL_ASPECT = 16
"""A header that claims more elongated pixels is taken for damaged: pixels are then square."""


@dataclass(frozen=True, slots=True)
class Orientation:
    """How stored pixels become upright: first swap the axes, then flip columns, then rows."""

    is_transposed: bool
    is_flipped_left_right: bool
    is_flipped_top_bottom: bool

    @classmethod
    def of(cls, frame: VideoFrame) -> Orientation:
        """From the display matrix (9 int32, row vectors: x' = a·x + c·y, y' = b·x + d·y)."""
        matrix = _display_matrix(frame)
        if matrix is None:
            turns = round(frame.rotation / 90) % 4
            return cls(turns in (1, 3), turns in (2, 3), turns in (1, 2))
        a, b, _, c, d = (int(value) for value in matrix[:5])
        if abs(a) + abs(d) >= abs(b) + abs(c):
            return cls(False, a < 0, d < 0)
        return cls(True, c < 0, b < 0)

    def upright(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """`[H, W, 3]` as it is shown (a view)."""
        if self.is_transposed:
            pixels = pixels.transpose(1, 0, 2)
        if self.is_flipped_left_right:
            pixels = pixels[:, ::-1]
        return pixels[::-1] if self.is_flipped_top_bottom else pixels


class PictureMaker:
    """Makes the pictures of one stream."""

    def __init__(
        self, *, longest_side_px: int, quality: int, pixel_aspect: Fraction | None
    ) -> None:
        self._longest_side_px = longest_side_px
        self._quality = quality
        self._pixel_aspect = _plausible_aspect(pixel_aspect)
        self._scaler = VideoReformatter()
        self._orientations: dict[int, Orientation] = {}

    def shown_size(self, frame: VideoFrame) -> tuple[int, int]:
        """Width and height of the frame as it is shown, in pixels, before any reduction."""
        width, height = self._square_size(frame)
        return (height, width) if self._orientation(frame).is_transposed else (width, height)

    def jpeg(self, frame: VideoFrame) -> bytes:
        """The stored picture of a frame. Raises MemoryError."""
        width, height = self._square_size(frame)
        width, height = fit(width, height, self._longest_side_px)
        small = self._scaler.reformat(
            frame, width, height, "rgb24", interpolation=Interpolation.AREA, threads=1
        )
        upright = self._orientation(frame).upright(np.asarray(small.to_ndarray(), dtype=np.uint8))
        encoded = io.BytesIO()
        image = Image.fromarray(np.ascontiguousarray(upright))
        image.save(encoded, "JPEG", quality=self._quality)
        return encoded.getvalue()

    def _orientation(self, frame: VideoFrame) -> Orientation:
        # Read once for each quarter turn: a frame whose side data was read refers to itself from
        # then on, and lives until the garbage collector runs, hundreds of frames later.
        degrees = rotation_degrees(frame)
        if degrees not in self._orientations:
            self._orientations[degrees] = Orientation.of(frame)
        return self._orientations[degrees]

    def _square_size(self, frame: VideoFrame) -> tuple[int, int]:
        return max(1, round(frame.width * self._pixel_aspect)), frame.height


def fit(width: int, height: int, longest_side: int) -> tuple[int, int]:
    """The size whose longest side is at most `longest_side`, in the same aspect; never larger."""
    scale = min(1.0, longest_side / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def rotation_degrees(frame: VideoFrame) -> int:
    """Counter-clockwise degrees (0, 90, 180 or 270) that turn the frame upright."""
    return round(frame.rotation / 90) % 4 * 90


def is_hdr(frame: VideoFrame) -> bool:
    """Whether the transfer is PQ or HLG."""
    return frame.color_trc in HDR_TRANSFERS


def _display_matrix(frame: VideoFrame) -> npt.NDArray[np.int32] | None:
    try:
        # Typed as text in PyAV's stubs, while it is a buffer.
        data: object = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:
        # PyAV does not know every kind of side data that FFmpeg attaches, and then gives none.
        return None
    return np.frombuffer(bytes(data), dtype=np.int32) if isinstance(data, Buffer) else None


def _plausible_aspect(aspect: Fraction | None) -> Fraction:
    if aspect is None or aspect <= 0:
        return Fraction(1)
    is_plausible = Fraction(1, LARGEST_PIXEL_ASPECT) <= aspect <= LARGEST_PIXEL_ASPECT
    return aspect if is_plausible else Fraction(1)
