"""Outside samplers that ask a model: one that behaves, and two that do not. Not fakes: plug-ins."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from samplers.contract import (
    FrameScorer,
    SamplerOptions,
    Scene,
    ScorerUnavailableError,
    VideoHandle,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingOptions(SamplerOptions):
    @property
    def uses_scorer(self) -> bool:
        return True


class Brightest:
    """The frames that the model likes best; it is asked about every candidate."""

    id: ClassVar[str] = "brightest"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True
    Options = AskingOptions

    def __init__(
        self, options: SamplerOptions, *, encoder: str, scorer: FrameScorer | None = None
    ) -> None:
        self.options = options
        self.encoder = encoder
        self._scorer = scorer

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        if self._scorer is None or query is None:
            raise ScorerUnavailableError("no scoring model")
        rows = range(len(video.candidates))
        scores = self._scorer.score(video, query, rows)
        best = np.argsort(-scores, kind="stable")[:budget]
        return [int(frame) for frame in video.candidates[np.sort(best)]]


class HangsAfterAsking(Brightest):
    """Asks, then sleeps for longer than any deadline."""

    id = "hangs-after-asking"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        super().select(video, query, budget, scenes)
        time.sleep(3600)


class RaisesAfterAsking(Brightest):
    """Asks, then raises."""

    id = "raises-after-asking"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        super().select(video, query, budget, scenes)
        raise RuntimeError("what now?")


TARGETS = tuple(
    f"{cls.__module__}:{cls.__name__}" for cls in (Brightest, HangsAfterAsking, RaisesAfterAsking)
)
