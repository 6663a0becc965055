"""Puts together what an answer stands on. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.answer_documents import (
    BudgetDocument,
    EvidenceDocument,
    FallbackDocument,
    FrameDocument,
    SamplerDocument,
    SceneDocument,
    ScorerDocument,
    TokensDocument,
)
from app.budget import Budget
from app.question import Question
from app.reduce.contract import ReducedTokens
from app.sampler_table import SamplerTable
from app.scorer.spec import ModelCost
from app.select_frames import Selection
from app.selection_inputs import SelectionInputs
from app.stores.library import StoredVideo
from flags.evaluate import Decision
from observability.names import Cache

MODALITIES = ["pictures"]
DERIVED_CACHES = (Cache.FRAME_TABLE, Cache.SCENES, Cache.FEATURES, Cache.LABEL_DISTRIBUTIONS)


@dataclass(frozen=True, slots=True)
class DeploymentFacts:
    """What is the same for every answer of this deployment."""

    table: SamplerTable
    reducer_id: str
    encoder_id: str
    llm_id: str
    profile: str


@dataclass(frozen=True, slots=True)
class SelectionParts:
    """What is known of one question once its frames are selected."""

    question: Question
    video: StoredVideo
    decision: Decision
    budget: Budget
    inputs: SelectionInputs
    selection: Selection

    def with_tokens(self, reduced: ReducedTokens) -> EvidenceParts:
        return EvidenceParts(
            self.question,
            self.video,
            self.decision,
            self.budget,
            self.inputs,
            self.selection,
            reduced,
        )


@dataclass(frozen=True, slots=True)
class EvidenceParts(SelectionParts):
    """What the stages before generation found for one question."""

    reduced: ReducedTokens


def evidence_document(
    parts: EvidenceParts, facts: DeploymentFacts, timings_s: dict[str, float]
) -> EvidenceDocument:
    return EvidenceDocument(
        sampler=_sampler(parts, facts.table),
        scorer=scorer_document(parts.selection.cost),
        frames=_frames(parts),
        scenes=scene_documents(parts.video),
        budget=BudgetDocument(frames=parts.budget.frames, limited_by=str(parts.budget.limited_by)),
        vision_tokens=TokensDocument(
            before_reduction=parts.reduced.num_tokens_before,
            after_reduction=len(parts.reduced.tokens),
            reducer=facts.reducer_id,
        ),
        caches=_caches(parts),
        encoder=facts.encoder_id,
        llm=facts.llm_id,
        profile=facts.profile,
        modalities=MODALITIES,
        warnings=list(parts.inputs.warnings),
        timings_s=timings_s,
    )


def _sampler(parts: EvidenceParts, table: SamplerTable) -> SamplerDocument:
    used = table.get(parts.selection.sampler_id)
    fallback = parts.selection.fallback
    return SamplerDocument(
        id=used.id,
        version=used.version,
        options=used.option_values,
        variant=parts.decision.variant,
        reason=parts.decision.reason,
        flag_version=parts.decision.flag_version,
        error=parts.decision.error,
        fallback=fallback
        and FallbackDocument(
            sampler=fallback.sampler_id, kind=str(fallback.kind), message=fallback.message
        ),
        note=parts.selection.note,
    )


def scorer_document(cost: ModelCost) -> ScorerDocument | None:
    """None where no model was asked or looked up."""
    if cost.model_id is None:
        return None
    return ScorerDocument(
        model=cost.model_id,
        calls=cost.calls,
        retried_calls=cost.retried_calls,
        cached_scores=cost.cached_scores,
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
        seconds=round(cost.seconds, 6),
    )


def _frames(parts: EvidenceParts) -> list[FrameDocument]:
    indices = parts.selection.indices
    return [
        FrameDocument(
            index=index,
            seconds=round(seconds, 6),
            picture=f"/v1/videos/{parts.video.video_id}/frames/{index}.jpg",
        )
        for index, seconds in zip(indices, parts.video.seconds(indices), strict=True)
    ]


def scene_documents(video: StoredVideo) -> list[SceneDocument]:
    """The video's shots in seconds; the last one ends with the video."""
    times, end_s = video.table.timestamps_s, video.table.duration_s
    return [
        SceneDocument(
            start_s=round(float(times[scene.start_frame]), 6),
            end_s=round(
                float(times[scene.end_frame]) if scene.end_frame < len(times) else end_s, 6
            ),
        )
        for scene in video.scenes
    ]


def cache_lookups(parts: EvidenceParts) -> dict[Cache, bool]:
    """Hit or not. What indexing makes is a miss where the question had to wait for it."""
    lookups = dict.fromkeys(DERIVED_CACHES, parts.video.was_stored)
    if parts.inputs.is_query_vector_hit is not None:
        lookups[Cache.QUERY_VECTORS] = parts.inputs.is_query_vector_hit
    return lookups


def _caches(parts: EvidenceParts) -> dict[str, str]:
    return {
        str(cache): "hit" if is_hit else "miss" for cache, is_hit in cache_lookups(parts).items()
    }
