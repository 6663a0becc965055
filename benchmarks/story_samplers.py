"""Candidates that deserve to be rolled back, one way each; plug-ins of the rollouts measured."""

from __future__ import annotations

import time
import zlib
from typing import ClassVar

from samplers.contract import FrameScorer, SamplerOptions, Scene, VideoHandle

SLOW_S = 0.12
"""Well below the deadline: a slow selection is used, and only a guard can see it."""


class Outside:
    """Base: what every plug-in here declares."""

    id: ClassVar[str]
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = False
    Options = SamplerOptions

    def __init__(
        self, options: SamplerOptions, *, encoder: str, scorer: FrameScorer | None = None
    ) -> None:
        del scorer
        self.options = options
        self.encoder = encoder

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        """The first candidates: frames of the video's first seconds only."""
        del query, scenes
        return [int(index) for index in video.candidates[:budget]]


class WorseSampler(Outside):
    """Sees the beginning and nothing else."""

    id: ClassVar[str] = "story-worse"


class SlowSampler(Outside):
    """Evenly spaced frames, late."""

    id: ClassVar[str] = "story-slow"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        del query, scenes
        time.sleep(SLOW_S)
        step = max(1, len(video.candidates) // budget)
        return [int(index) for index in video.candidates[::step][:budget]]


class RaisingSampler(Outside):
    """Fails for a third of the questions."""

    id: ClassVar[str] = "story-raising"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        if zlib.crc32((query or "").encode()) % 3 == 0:
            raise RuntimeError("this question is not for me")
        return super().select(video, query, budget, scenes)


class BrokenSampler(Outside):
    """Fails for every question."""

    id: ClassVar[str] = "story-broken"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        del video, query, budget, scenes
        raise RuntimeError("no question is for me")
