"""`m-llm`: a vision-language model says of each frame whether it helps to answer the question.

The training-free part of the frame selector by Hu et al. (CVPR 2025, arXiv 2502.19680), whose code
and weights are not public: the yes/no question by which its labels were made, asked of any model
that is served, and its non-maximum suppression. Written from the paper's description.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from samplers.contract import (
    FrameScorer,
    NotedSelection,
    SamplerOptions,
    Scene,
    VideoHandle,
)
from samplers.model_scores import available, completed, model_choice, usable_answers
from samplers.options import check_ranges
from samplers.selection import finalise

MOST_ASKED = 256


@dataclass(frozen=True, slots=True)
class MLlmSampler:
    """A model says of each likely frame whether it helps; the best that keep apart are taken."""

    id: ClassVar[str] = "m-llm"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How many frames the model is asked about."""

        num_asked: int = field(
            default=64,
            metadata={
                "doc": "most frames the model is asked about, one call each, 2 to 256; it is not "
                "asked when the budget takes as many"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(self, num_asked=(2, MOST_ASKED))

        @property
        def uses_scorer(self) -> bool:
            return True

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
        """Exactly `min(budget, C)` frame indices, as `select_with_note` chooses them."""
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """At most `num_asked` questions; `uniform` rows without a query or usable scores.

        Raises `FeaturesMissingError`, and `ScorerUnavailableError` where the model cannot be asked.
        """
        del scenes
        choice = model_choice(video, query, budget, self.encoder, self.options.num_asked)
        if isinstance(choice, NotedSelection):
            return choice
        asked = choice.rows
        scores = available(self.scorer).score(video, choice.query, asked.tolist())
        answers = usable_answers(scores, len(asked))
        rows = choice.best_rows(completed(answers, choice.cosines[asked]), budget)
        num_answered = np.count_nonzero(~np.isnan(answers))
        return NotedSelection(
            finalise(rows, video, budget, choice.cosines),
            f"asked about {len(asked)} of {len(video.candidates):,} candidates, "
            f"{num_answered} answered",
        )
