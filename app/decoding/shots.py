"""Finds the shots with PySceneDetect, on downscaled frames at up to ten a second.

A cut is placed at the looked-at frame that shows it first: up to a tenth of a second late.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from scenedetect.common import FrameTimecode, Timecode
from scenedetect.detectors import ContentDetector

from app.decoding.job import SHOT_MIN_LENGTH_S, SHOT_RATE_FPS, SHOT_SIDE_PX, SHOT_THRESHOLD
from app.decoding.pictures import fit
from samplers.contract import Scene, TimeArray

MICROSECOND = Fraction(1, 1_000_000)
NOMINAL_FPS = 25.0
"""The detector insists on a frame rate, but compares times only: many files have no such rate."""

TOLERANCE_S = 0.001
"""Frames a tenth of a second apart, give or take the rounding of their times, are all wanted."""


class ShotFinder:
    """Looks at frames in presentation order; keeps one downscaled frame and the cuts' times."""

    def __init__(self) -> None:
        self._detector = ContentDetector(threshold=SHOT_THRESHOLD, min_scene_len=SHOT_MIN_LENGTH_S)
        self._scaler = VideoReformatter()
        self._size: tuple[int, int] | None = None
        self._next_look_s = 0.0
        self._cuts_s: list[float] = []

    def wants(self, time_s: float) -> bool:
        """Whether to look at the frame of this time; True for about ten a second."""
        if time_s < self._next_look_s:
            return False
        # Counted from this frame: on a fixed grid two looks after a gap could lie too near.
        self._next_look_s = time_s + 1 / SHOT_RATE_FPS - TOLERANCE_S
        return True

    def look(self, time_s: float, frame: VideoFrame) -> None:
        """Take in a frame that is wanted."""
        # All frames are brought to the first one's size: a stream may change its own midway.
        self._size = self._size or fit(frame.width, frame.height, SHOT_SIDE_PX)
        small = self._scaler.reformat(
            frame, *self._size, "bgr24", interpolation=Interpolation.AREA, threads=1
        )
        time = FrameTimecode(Timecode(round(time_s / MICROSECOND), MICROSECOND), fps=NOMINAL_FPS)
        cuts = self._detector.process_frame(time, small.to_ndarray())
        self._cuts_s.extend(cut.seconds for cut in cuts)

    def scenes(self, timestamps_s: TimeArray) -> list[Scene]:
        """The shots as half-open frame indices: sorted, disjoint, covering `0..T`."""
        num_frames = len(timestamps_s)
        half_s = float(MICROSECOND) / 2
        starts = np.searchsorted(timestamps_s, np.array(self._cuts_s) - half_s, side="left")
        inner = sorted({int(start) for start in starts if 0 < start < num_frames})
        bounds = [0, *inner, num_frames]
        return [Scene(start, end) for start, end in pairwise(bounds)]
