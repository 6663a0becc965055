"""`adard-key`: relevance plus log-determinant diversity (AdaRD-Key, arXiv 2510.02778).

Chooses frames greedily by relevance + lambda * log det of their similarities, with a lambda that
follows the spread of relevance and the budget, and drops relevance where the question matches
nothing. The authors' code was not available: clean-room, from second-hand notes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from samplers.contract import (
    FloatArray,
    FrameScorer,
    IndexArray,
    NotedSelection,
    SamplerOptions,
    Scene,
    VideoHandle,
)
from samplers.logdet import (
    MOST_PICKS,
    GramKernel,
    LogDetObjective,
    compared_rows,
    greedy_rows,
    taken_rows,
)
from samplers.options import check_ranges
from samplers.selection import RealArray, finalise, min_max_scaled, num_wanted, usable_scores

RATIO_OF_FULL_DIVERSITY = 8.0
"""From this many candidates per frame on, VB-Scale's budget term is `lambda_max`."""
MAD_TO_DEVIATION = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class VbScale:
    """Bounds and weight of variability-budget scaling; the authors' constants are not confirmed."""

    lambda_min: float = 0.05
    lambda_max: float = 0.6
    alpha: float = 2.0


def vb_scale_lambda(relevance: RealArray, count: int, scale: VbScale) -> float:
    """Weight of diversity from the relevance's coefficient of variation and candidates per frame.

    `relevance` is `[C]`, finite, not negative, C >= count >= 1.
    """
    mean, deviation = float(relevance.mean()), float(relevance.std())
    by_variation = scale.lambda_min
    if mean > 0:
        by_variation += scale.lambda_max / (1 + scale.alpha * deviation / mean)
    ratio = len(relevance) / count
    by_budget = scale.lambda_max * min(1.0, float(np.log(ratio) / np.log(RATIO_OF_FULL_DIVERSITY)))
    budget_share = 1 / (1 + float(np.exp(1 - ratio)))
    mixed = budget_share * by_budget + (1 - budget_share) * by_variation
    return min(max(mixed, scale.lambda_min), scale.lambda_max)


def adard_rows(
    relevance: RealArray,
    embeddings: RealArray,
    count: int,
    *,
    weight: float,
    eps: float,
    first: int | None = None,
) -> list[int]:
    """Rows in the order of choice, maximising `sum(relevance) + weight * log det (G + eps I)`.

    `relevance` is `[N]`, `embeddings` `[N, D]` with Gram matrix G; products keep the embeddings'
    precision, the factorisation is float64. Rows that are not finite are never chosen.
    """
    objective = LogDetObjective(GramKernel(embeddings), relevance, weight, eps)
    return greedy_rows(objective, count, first)


def peak_height(scores: RealArray) -> float:
    """How far the best score stands out, in units of what chance would do; infinite for a spike.

    The robust z-score of the maximum, `(max - median) / (1.4826 * MAD)`, over `sqrt(2 ln C)`, which
    the best of C scores without any relation to the question would hardly exceed. `scores` is
    `[C]`, finite and not constant, so C >= 2.
    """
    exact = scores.astype(np.float64)
    median = np.median(exact)
    deviation = MAD_TO_DEVIATION * float(np.median(np.abs(exact - median)))
    if deviation <= 0:
        return float("inf")
    return float(exact.max() - median) / deviation / float(np.sqrt(2 * np.log(len(exact))))


@dataclass(frozen=True, slots=True)
class AdardKeySampler:
    """Relevance plus log-determinant diversity, relevance dropped where nothing is relevant."""

    id: ClassVar[str] = "adard-key"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How much diversity counts, and when relevance does not."""

        lambda_rule: Literal["vb-scale", "fixed"] = field(
            default="vb-scale",
            metadata={
                "doc": "weight of diversity: from the spread of relevance and the candidates per "
                "frame, or `lambda_fixed`"
            },
        )
        lambda_fixed: float = field(
            default=1.0, metadata={"doc": "weight of diversity under the rule `fixed`, 0 to 100"}
        )
        lambda_min: float = field(
            default=0.05, metadata={"doc": "least weight under `vb-scale`, not negative"}
        )
        lambda_max: float = field(
            default=0.1, metadata={"doc": "largest weight under `vb-scale`, up to 100"}
        )
        alpha: float = field(
            default=2.0,
            metadata={
                "doc": "under `vb-scale`: how strongly uneven relevance lowers the weight, 0 to 100"
            },
        )
        eps: float = field(
            default=0.01,
            metadata={"doc": "added to the diagonal of the similarities, 0.000001 to 1"},
        )
        gate: Literal["peak-z", "score", "off"] = field(
            default="peak-z",
            metadata={
                "doc": "when relevance is dropped: unless the best score stands out from the "
                "others, unless it reaches `tau` itself, or never"
            },
        )
        tau: float = field(
            default=0.5,
            metadata={
                "doc": "threshold of the gate. `peak-z`: the robust z-score of the best frame in "
                "multiples of sqrt(2 ln C); `score`: the score itself (published: 0.4, for "
                "image-text-matching probabilities)"
            },
        )
        closed_first: Literal["relevance", "middle"] = field(
            default="relevance",
            metadata={
                "doc": "first frame when the gate is closed: the most relevant or the middle one"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(
                self,
                lambda_fixed=(0.0, 100.0),
                lambda_min=(0.0, self.lambda_max),
                lambda_max=(self.lambda_min, 100.0),
                alpha=(0.0, 100.0),
                eps=(1e-6, 1.0),
                tau=(-1e6, 1e6),
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
        """Exactly `min(budget, C)` frame indices; diversity alone without a query or usable scores.

        Raises `FeaturesMissingError`.
        """
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """As `select`; the note says whether relevance counted, and the weight of diversity."""
        del scenes
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return NotedSelection(finalise([], video, budget))
        scores = usable_scores(video, self.encoder, query)
        if scores is None:
            picks = self._rows(video, wanted, None, None)
            return NotedSelection(finalise(picks, video, budget), "no usable scores: diversity")
        if not self._is_gate_open(scores):
            picks = self._rows(video, wanted, scores, None)
            note = "gate closed, no frame stands out: diversity"
            return NotedSelection(finalise(picks, video, budget, scores), note)
        relevance = min_max_scaled(scores)
        weight = self._weight(relevance, wanted)
        picks = self._rows(video, wanted, scores, weight)
        note = f"gate open: relevance + {weight:.3g} * diversity"
        return NotedSelection(finalise(picks, video, budget, scores), note)

    def _rows(
        self, video: VideoHandle, wanted: int, scores: FloatArray | None, weight: float | None
    ) -> IndexArray:
        """Rows chosen by relevance and `weight` times diversity; by diversity alone without one."""
        embeddings = video.image_embeddings(self.encoder)
        count = min(wanted, MOST_PICKS)
        compared = compared_rows(scores, len(embeddings), count, embeddings.shape[1])
        first: int | None = None
        relevance: RealArray = np.zeros(len(compared))
        if scores is not None and weight is not None:
            relevance = min_max_scaled(scores)[compared]
        elif scores is not None and self.options.closed_first == "relevance":
            first = int(np.argmax(scores[compared]))
        else:
            first = len(compared) // 2
        # Diversity alone has no weight to speak of: the choice is the same for all but zero.
        picks = adard_rows(
            relevance,
            taken_rows(embeddings, compared),
            count,
            weight=1.0 if weight is None else weight,
            eps=self.options.eps,
            first=first,
        )
        return compared[picks]

    def _is_gate_open(self, scores: FloatArray) -> bool:
        if self.options.gate == "off":
            return True
        height = peak_height(scores) if self.options.gate == "peak-z" else float(scores.max())
        return height >= self.options.tau

    def _weight(self, relevance: RealArray, count: int) -> float:
        options = self.options
        if options.lambda_rule == "fixed":
            return options.lambda_fixed
        scale = VbScale(options.lambda_min, options.lambda_max, options.alpha)
        return vb_scale_lambda(relevance, count, scale)
