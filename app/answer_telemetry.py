"""Counts and logs what one answer's stages found, once they have."""

from __future__ import annotations

import logging

from app.decide import SamplerDecider
from app.evidence import EvidenceParts
from app.sampler_table import SamplerTable
from observability.log_events import SelectionTrace, log_selection
from observability.metrics import Metrics
from observability.names import Cache

logger = logging.getLogger(__name__)


def record_selection(
    parts: EvidenceParts, table: SamplerTable, decider: SamplerDecider, metrics: Metrics
) -> None:
    """The index trace, vision tokens, device-seconds and cache look-ups of one answer."""
    metrics.vision_tokens_reduced(
        before=parts.reduced.num_tokens_before, after=len(parts.reduced.tokens)
    )
    metrics.answer_used_encoder(parts.inputs.encoder_device_s)
    metrics.cache_looked_up(Cache.FEATURES, hit=True)
    metrics.cache_looked_up(Cache.LABEL_DISTRIBUTIONS, hit=True)
    if parts.inputs.is_query_vector_hit is not None:
        metrics.cache_looked_up(Cache.QUERY_VECTORS, hit=parts.inputs.is_query_vector_hit)
    indices = parts.selection.indices
    fallback = parts.selection.fallback
    log_selection(
        logger,
        SelectionTrace(
            answer_id=parts.question.answer_id,
            video_id=parts.video.video_id,
            sampler_id=parts.selection.sampler_id,
            sampler_version=table.entry(parts.selection.sampler_id).version,
            reason=parts.decision.reason,
            budget=parts.budget.frames,
            limited_by=str(parts.budget.limited_by),
            indices=indices,
            seconds=parts.video.seconds(indices),
            num_candidates=parts.video.table.num_candidates,
            variant=parts.decision.variant,
            fallback=None if fallback is None else f"{fallback.sampler_id}: {fallback.kind}",
            user_hash=decider.user_hash(parts.question),
        ),
    )
