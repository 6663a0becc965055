"""What a scorer is made of in any process, and what its work cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from app.settings import Settings

SCORER_SHARE = 0.9
"""Of a selection's deadline, for the model: what ends by itself says why and what it cost; what is
killed does not."""


class ScoreNamespace(StrEnum):
    """Whose scores: each has a cache of its own, so that none finds what another paid for."""

    ANSWERS = "answers"
    SHADOW_CONTROL = "shadow-control"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True)
class ScorerSpec:
    """The vision-language model that is asked about frames; picklable and hashable."""

    url: str
    """Of an OpenAI-compatible server, with or without `/v1`."""
    model_id: str
    api_key: str | None = field(default=None, repr=False)
    call_timeout_s: float = 10.0
    concurrency: int = 8
    """Calls in flight, of one process."""
    picture_px: int = 448
    """Longer side of a picture in `score` and `score_sets`."""
    range_picture_px: int = 224
    """The same in `rate_ranges`, where one call shows hundreds."""
    cache_bytes: int = 2 * 1024 * 1024
    """Of the scores of one video in one namespace."""


def scorer_spec(settings: Settings) -> ScorerSpec | None:
    """None: this deployment has no scoring model."""
    if settings.scorer_url is None or settings.scorer_model is None:
        return None
    key = settings.scorer_api_key
    return ScorerSpec(
        url=settings.scorer_url,
        model_id=settings.scorer_model,
        api_key=None if key is None else key.get_secret_value(),
        call_timeout_s=settings.scorer_timeout_s,
        concurrency=settings.scorer_concurrency,
        picture_px=settings.scorer_picture_px,
        range_picture_px=settings.scorer_range_picture_px,
        cache_bytes=settings.scorer_cache_bytes,
    )


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What a selection asked of a scoring model; all 0 for samplers that have none."""

    calls: int = 0
    """Requests sent, repeated ones included."""
    cached_scores: int = 0
    """Scores that needed no call."""
    missed_scores: int = 0
    """Scores that were not known, whether or not a call then gave them."""
    input_tokens: int = 0
    output_tokens: int = 0
    retried_calls: int = 0
    """Of `calls`, those that repeated a failed one."""
    seconds: float = 0.0
    """That the selection waited for the model."""
    breaker_openings: int = 0
    """Times that it gave the model up for a while."""
    breaker_refusals: int = 0
    """Questions that were not sent because the model had been given up."""
    model_id: str | None = None
    """None: the selection had no scoring model."""


NO_COST = ModelCost()
