"""From an ended answer to the shadow's order, and from its result to the record."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from functools import partial

from app.ended_answer import EndedAnswer
from app.evidence import DeploymentFacts, EvidenceParts
from app.sampler_table import SamplerTable
from app.shadow_video import ShadowModel, open_compared_video
from app.stores.library import DEFAULT_ENCODER
from app.stores.query_vectors import FoundQuery
from app.stores.video_handle import VideoHandleSpec
from shadow.order import ControlSelection, SamplerSpec, SideResult, WorkOrder, WorkResult
from shadow.policy import PlannedComparison
from shadow.records import ComparisonRecord, SideRecord


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """An ended answer that is compared: what both the order and the record are made of."""

    ended: EndedAnswer
    parts: EvidenceParts
    facts: DeploymentFacts
    plan: PlannedComparison
    found: FoundQuery | None
    """The question's vector, where the shadow had to ask for it."""


def has_query_vector(parts: EvidenceParts) -> bool:
    """The control had the question's vector."""
    spec = parts.inputs.request.video.spec
    return (spec.encoder_ids[DEFAULT_ENCODER], parts.question.text) in spec.query_vectors


@dataclass(frozen=True, slots=True)
class OrderRules:
    """What every order of a deployment says."""

    table: SamplerTable
    tolerance_s: float
    model: ShadowModel | None
    """None: no sampler has a model to ask."""


def order_of(answer: ComparedAnswer, rules: OrderRules) -> WorkOrder:
    parts, plan = answer.parts, answer.plan
    fallback = parts.selection.fallback
    selected = (
        ControlSelection(indices=tuple(parts.selection.indices))
        if fallback is None
        else ControlSelection(
            indices=(), failure_kind=str(fallback.kind), failure_message=fallback.message
        )
    )
    return WorkOrder(
        open_video=partial(
            open_compared_video, _video_spec(answer), parts.question.text, rules.model
        ),
        query=parts.question.text,
        budget=parts.budget.frames,
        control=sampler_spec(rules.table, parts.decision.sampler_id),
        selected=selected,
        shadow=sampler_spec(rules.table, plan.shadow_id),
        is_control_first=plan.is_control_first,
        tolerance_s=rules.tolerance_s,
    )


def _video_spec(answer: ComparedAnswer) -> VideoHandleSpec:
    spec = answer.parts.inputs.request.video.spec
    if answer.found is None:
        return spec
    key = (spec.encoder_ids[DEFAULT_ENCODER], answer.parts.question.text)
    return replace(spec, query_vectors={key: answer.found.vector.vector})


def sampler_spec(table: SamplerTable, sampler_id: str) -> SamplerSpec:
    """Raises `UnknownSamplerError`."""
    return SamplerSpec(
        sampler_id=sampler_id,
        base_id=table.entry(sampler_id).id,
        version=table.version(sampler_id),
        options=tuple(table.options(sampler_id).items()),
        encoder=table.encoder,
        uses_scorer=table.uses_scorer(sampler_id),
    )


@dataclass(frozen=True, slots=True)
class RecordRules:
    """What every record of a deployment says, and how many tokens frames become."""

    tolerance_s: float
    user_hash: str | None
    shadow_tokens: int | None
    """Vision tokens after reduction of the shadow's frames."""


def record_of(answer: ComparedAnswer, result: WorkResult, rules: RecordRules) -> ComparisonRecord:
    """`result` is finished: it has both sides."""
    ended, parts, facts = answer.ended, answer.parts, answer.facts
    gap = result.differences
    return ComparisonRecord(
        comparison_id=uuid.uuid5(uuid.NAMESPACE_OID, ended.question.answer_id).hex,
        answer_id=ended.question.answer_id,
        tenant=ended.question.tenant,
        video_id=parts.video.video_id,
        user_hash=rules.user_hash,
        created_s=ended.created.timestamp(),
        kind=answer.plan.kind,
        question=ended.question.text,
        flag_version=parts.decision.flag_version,
        encoder_id=facts.encoder_id,
        llm_id=facts.llm_id,
        profile=facts.profile,
        reducer_id=facts.reducer_id,
        budget=parts.budget.frames,
        video_seconds=parts.video.table.duration_s,
        num_candidates=parts.video.table.num_candidates,
        control=_control(answer, result.control or SideResult()),
        shadow=_shadow(answer, result.shadow or SideResult(), rules.shadow_tokens),
        overlap_exact=None if gap is None else gap.overlap_exact,
        overlap_within=None if gap is None else gap.overlap_within,
        tolerance_s=rules.tolerance_s,
        temporal_distance_s=None if gap is None else gap.temporal_distance_s,
    )


def _control(answer: ComparedAnswer, side: SideResult) -> SideRecord:
    parts, usage = answer.parts, answer.ended.usage
    made = _side(answer, parts.decision.sampler_id, side)
    has_selected = side.failure_kind is None
    return replace(
        made,
        vision_tokens=len(parts.reduced.tokens) if has_selected else None,
        output_tokens=usage.output_tokens if usage is not None and has_selected else None,
        encoder_device_s=parts.inputs.encoder_device_s,
    )


def _shadow(answer: ComparedAnswer, side: SideResult, tokens: int | None) -> SideRecord:
    made = _side(answer, answer.plan.shadow_id, side)
    return replace(made, vision_tokens=tokens, encoder_device_s=_shadow_device_s(answer))


def _shadow_device_s(answer: ComparedAnswer) -> float:
    """What the encoder would have worked, had the shadow's sampler served this answer."""
    if not answer.facts.table.entry(answer.plan.shadow_id).uses_query:
        return 0.0
    found = answer.found
    if found is None:
        return answer.parts.inputs.encoder_device_s
    return 0.0 if found.is_hit else found.vector.device_s


def _side(answer: ComparedAnswer, sampler_id: str, side: SideResult) -> SideRecord:
    table = answer.facts.table
    return SideRecord(
        sampler_id=sampler_id,
        sampler_version=table.version(sampler_id),
        sampler_options=table.options(sampler_id),
        indices=side.indices,
        seconds=side.seconds,
        latency_s=side.latency_s,
        failure_kind=side.failure_kind,
        failure_message=side.failure_message,
        relevance=side.relevance,
        redundancy=side.redundancy,
        scene_coverage=side.scene_coverage,
        model_calls=side.model_calls,
        model_tokens=side.model_tokens,
    )
