"""`auto`: chooses a sampler by the question, and says why.

No sampler is best for every question: those about one moment want the best frames, those about
several want all of the moments, those about the whole video want all of the video. Our own; other
routers ask a language model, this one reads the question's words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Literal

from samplers.adard_key import AdardKeySampler
from samplers.aks import AksSampler
from samplers.contract import (
    FeaturesMissingError,
    FrameScorer,
    NotedSelection,
    Sampler,
    SamplerOptions,
    Scene,
    VideoHandle,
)
from samplers.gift import GiftSampler
from samplers.maxvol import MaxvolSampler
from samplers.question_scope import Scope, scope_of_scores, scope_of_words
from samplers.selection import num_wanted, usable_scores
from samplers.topk import TopkSampler
from samplers.uniform import UniformSampler
from samplers.wfs import WfsSampler

DELEGATES: Mapping[str, Callable[[str], Sampler]] = MappingProxyType(
    {
        "uniform": lambda encoder: UniformSampler(UniformSampler.Options(), encoder=encoder),
        "maxvol": lambda encoder: MaxvolSampler(MaxvolSampler.Options(), encoder=encoder),
        "topk": lambda encoder: TopkSampler(TopkSampler.Options(), encoder=encoder),
        "gift": lambda encoder: GiftSampler(GiftSampler.Options(), encoder=encoder),
        "wfs": lambda encoder: WfsSampler(WfsSampler.Options(), encoder=encoder),
        "aks": lambda encoder: AksSampler(AksSampler.Options(), encoder=encoder),
        "adard-key": lambda encoder: AdardKeySampler(AdardKeySampler.Options(), encoder=encoder),
    }
)
"""Sampler id -> makes that sampler, with its default options, for an encoder."""


@dataclass(frozen=True, slots=True)
class AutoSampler:
    """Chooses a sampler by the question: for the whole video, one moment or several."""

    id: ClassVar[str] = "auto"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """Which sampler answers which kind of question."""

        whole_video: Literal["uniform", "maxvol"] = field(
            default="uniform",
            metadata={"doc": "for questions about all of the video"},
        )
        one_moment: Literal["topk", "gift"] = field(
            default="topk",
            metadata={"doc": "for questions that one moment answers"},
        )
        several_moments: Literal["wfs", "adard-key", "aks"] = field(
            default="wfs",
            metadata={"doc": "for questions that need several moments"},
        )

    options: Options
    encoder: str = field(kw_only=True)
    scorer: FrameScorer | None = field(default=None, kw_only=True)

    def select(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> list[int]:
        """The indices of `select_with_note`."""
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """Exactly `min(budget, C)` frame indices, and which sampler chose them for what reason.

        Without a query `maxvol`, or `uniform` where there are no embeddings. Raises
        `FeaturesMissingError`.
        """
        if num_wanted(video, budget) in (0, len(video.candidates)):
            return NotedSelection(
                DELEGATES["uniform"](self.encoder).select(video, None, budget, None)
            )
        if query is None:
            return self._without_ranking(video, budget, "no question")
        reading = scope_of_words(query)
        if reading is None:
            scores = usable_scores(video, self.encoder, query)
            if scores is None:
                return self._without_ranking(video, budget, "the scores rank nothing")
            reading = scope_of_scores(scores, video.timestamps_s[video.candidates])
        sampler_id = self._sampler_id(reading.scope)
        note = f"{reading.scope} ({reading.reason}): {sampler_id}"
        delegate = DELEGATES[sampler_id](self.encoder)
        return NotedSelection(delegate.select(video, query, budget, scenes), note)

    def _sampler_id(self, scope: Scope) -> str:
        options = self.options
        return {
            "whole video": options.whole_video,
            "one moment": options.one_moment,
            "several moments": options.several_moments,
        }[scope]

    def _without_ranking(self, video: VideoHandle, budget: int, reason: str) -> NotedSelection:
        """The frames of `maxvol`, or of `uniform` where there are no embeddings."""
        sampler_id = "maxvol"
        try:
            indices = DELEGATES[sampler_id](self.encoder).select(video, None, budget, None)
        except FeaturesMissingError:
            sampler_id = "uniform"
            indices = DELEGATES[sampler_id](self.encoder).select(video, None, budget, None)
        return NotedSelection(indices, f"{reason}: {sampler_id}")
