"""Counts, logs and puts on spans what one answer's stages found, once they have."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from app.decide import SamplerDecider
from app.evidence import EvidenceParts, cache_lookups
from app.generate.contract import GenerationOptions, TextDelta, Usage
from app.sampler_table import SamplerTable
from observability.log_events import SelectionTrace, log_selection
from observability.metrics import Metrics
from observability.names import GenAiAttribute
from observability.stages import SpanTimer

logger = logging.getLogger(__name__)


def record_selection(
    parts: EvidenceParts, table: SamplerTable, decider: SamplerDecider, metrics: Metrics
) -> None:
    """The index trace, vision tokens, device-seconds and cache look-ups of one answer."""
    metrics.vision_tokens_reduced(
        before=parts.reduced.num_tokens_before, after=len(parts.reduced.tokens)
    )
    metrics.answer_used_encoder(parts.inputs.encoder_device_s)
    for cache, is_hit in cache_lookups(parts).items():
        metrics.cache_looked_up(cache, hit=is_hit)
    indices = parts.selection.indices
    fallback = parts.selection.fallback
    log_selection(
        logger,
        SelectionTrace(
            answer_id=parts.question.answer_id,
            video_id=parts.video.video_id,
            sampler_id=parts.selection.sampler_id,
            sampler_version=table.version(parts.selection.sampler_id),
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


async def noted_generation(
    pieces: AsyncGenerator[TextDelta | Usage, None],
    timer: SpanTimer,
    llm_id: str,
    options: GenerationOptions,
) -> AsyncGenerator[TextDelta | Usage, None]:
    """The same pieces; the `generate` span gets what OpenTelemetry's GenAI conventions ask for."""
    timer.set(GenAiAttribute.OPERATION, "chat")
    timer.set(GenAiAttribute.PROVIDER, "openai")  # the convention's word for servers of that API
    timer.set(GenAiAttribute.REQUEST_MODEL, llm_id)
    timer.set(GenAiAttribute.REQUEST_MAX_TOKENS, options.max_tokens)
    timer.set(GenAiAttribute.REQUEST_TEMPERATURE, options.temperature)
    timer.set(GenAiAttribute.REQUEST_SEED, options.seed)
    is_first = True
    async with aclosing(pieces):
        async for piece in pieces:
            if is_first:
                timer.set(GenAiAttribute.TIME_TO_FIRST_CHUNK, timer.seconds)
                is_first = False
            if isinstance(piece, Usage):
                timer.set(GenAiAttribute.INPUT_TOKENS, piece.input_tokens)
                timer.set(GenAiAttribute.OUTPUT_TOKENS, piece.output_tokens)
                timer.set(GenAiAttribute.FINISH_REASONS, [piece.finish_reason])
            yield piece
