"""Outside samplers that misbehave, one way each; and one that behaves. Not fakes: plug-ins."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from samplers.contract import (
    FeaturesMissingError,
    FrameScorer,
    SamplerOptions,
    Scene,
    VideoHandle,
)


class Outside:
    """Base: what every plug-in here declares."""

    id: ClassVar[str]
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = False
    Options: ClassVar[type[SamplerOptions]] = SamplerOptions

    def __init__(
        self, options: SamplerOptions, *, encoder: str, scorer: FrameScorer | None = None
    ) -> None:
        self.options = options
        self.encoder = encoder

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFramesOptions(SamplerOptions):
    skip: int = field(default=0, metadata={"doc": "candidates passed over at the start"})


class FirstFrames(Outside):
    """Behaves: the first candidates."""

    id = "first-frames"
    Options = FirstFramesOptions
    options: FirstFramesOptions

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        first = min(self.options.skip, max(0, len(video.candidates) - budget))
        return [int(index) for index in video.candidates[first : first + budget]]


class Raising(Outside):
    """Raises."""

    id = "raising"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        raise RuntimeError("the model is out of memory")


class Unsorted(Outside):
    """Returns a duplicate, unsorted."""

    id = "unsorted"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        return [5, 5, 2]


class Floats(Outside):
    """Returns floats."""

    id = "floats"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        return [float(index) for index in video.candidates[:budget]]


class Sleeping(Outside):
    """Sleeps for longer than any deadline."""

    id = "sleeping"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        time.sleep(3600)


class Featureless(Outside):
    """Asks for an encoder that the video was not indexed with."""

    id = "featureless"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        video.image_embeddings("an-encoder-nobody-has")
        raise FeaturesMissingError("unreachable")


class Exiting(Outside):
    """Takes its process down."""

    id = "exiting"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        raise SystemExit(3)


class Dying(Outside):
    """Kills its process without a word, as a crash in native code would."""

    id = "dying"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        os._exit(9)


class OddError(Exception):
    """Cannot be unpickled: its constructor wants more than it keeps."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


class RaisingOddly(Outside):
    """Raises an error that no other process can rebuild."""

    id = "odd-error"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        raise OddError("a", "b")


class Unbuildable(Outside):
    """Cannot be built."""

    id = "unbuildable"

    def __init__(
        self, options: SamplerOptions, *, encoder: str, scorer: FrameScorer | None = None
    ) -> None:
        raise LookupError("no weights")


class Unannounced(Outside):
    """Reads scores, though it says that it does not use the query."""

    id = "unannounced"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        best = int(video.scores(self.encoder, str(query)).argmax())
        return [int(index) for index in video.candidates[best : best + budget]]


ALL = (
    FirstFrames,
    Raising,
    Unsorted,
    Floats,
    Sleeping,
    Featureless,
    Exiting,
    Dying,
    RaisingOddly,
    Unannounced,
    Unbuildable,
)
TARGETS = tuple(f"{cls.__module__}:{cls.__name__}" for cls in ALL)
