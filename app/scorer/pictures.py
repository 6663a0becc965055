"""The stored candidate pictures of one video as data URLs, scaled down."""

from __future__ import annotations

import base64
from pathlib import Path

import cv2

from app.stores.frames import PicturePack

QUALITY = 85


class SmallPictures:
    """Of the published folder of a video's frames; from any thread."""

    def __init__(self, folder: Path) -> None:
        """Raises FileNotFoundError where the video was deleted or evicted."""
        self._pack = PicturePack(folder)

    @property
    def num_pictures(self) -> int:
        return self._pack.num_pictures

    def data_url(self, row: int, side_px: int) -> str:
        """A JPEG whose longer side is at most `side_px`. Raises IndexError, OSError."""
        pixels = self._pack.rgb(row)
        longer_px = max(pixels.shape[:2])
        jpeg = self._pack.jpeg(row)
        if longer_px > side_px:
            by = side_px / longer_px
            # The shorter side of a very long picture would round to nothing.
            height, width = (max(1, round(by * side)) for side in pixels.shape[:2])
            small = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
            quality = [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
            bgr = cv2.cvtColor(small, cv2.COLOR_RGB2BGR)
            jpeg = cv2.imencode(".jpg", bgr, quality)[1].tobytes()
        return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii")
