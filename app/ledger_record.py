"""One ended answer as the ledger keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from app.ended_answer import EndedAnswer
from app.evidence import DeploymentFacts, SelectionParts
from app.question import Question
from app.stores.ledger_rows import SelectionRecord


class SelectionSink(Protocol):
    def put_selection(self, record: SelectionRecord) -> None:
        """Returns at once and never raises."""
        ...


class SelectionRecorder:
    """Told of every ended answer; records those whose frames were selected."""

    def __init__(self, hash_user: Callable[[Question], str | None], sink: SelectionSink) -> None:
        self._hash_user = hash_user
        self._sink = sink

    def __call__(self, ended: EndedAnswer) -> None:
        if ended.selected is not None and ended.facts is not None:
            user_hash = self._hash_user(ended.question)
            record = selection_record(ended, ended.selected, ended.facts, user_hash)
            self._sink.put_selection(record)


def selection_record(
    ended: EndedAnswer, selected: SelectionParts, facts: DeploymentFacts, user_hash: str | None
) -> SelectionRecord:
    decision, selection, video = selected.decision, selected.selection, selected.video
    used = facts.table.get(selection.sampler_id)
    fallback = selection.fallback
    # Without tokens where the answer ended before they were made.
    reduced = None if ended.parts is None else ended.parts.reduced
    return SelectionRecord(
        answer_id=ended.question.answer_id,
        tenant=ended.question.tenant,
        video_id=video.video_id,
        user_hash=user_hash,
        created_s=ended.created.timestamp(),
        decided_sampler_id=decision.sampler_id,
        decided_sampler_version=_version(facts, decision.sampler_id),
        variant=decision.variant,
        reason=decision.reason.lower(),
        flag_version=decision.flag_version,
        salt=decision.salt,
        engine_version=decision.engine_version,
        is_exposure=decision.is_exposure,
        flag_error=decision.error,
        sampler_id=used.id,
        sampler_version=used.version,
        sampler_options=used.option_values,
        fallback_kind=None if fallback is None else str(fallback.kind),
        fallback_message=None if fallback is None else fallback.message,
        encoder_id=facts.encoder_id,
        decode_version=video.table.decode_version,
        detector_version=video.table.detector_version,
        fps=video.table.fps,
        budget=selected.budget.frames,
        limited_by=str(selected.budget.limited_by),
        reducer_id=facts.reducer_id,
        profile=facts.profile,
        llm_id=facts.llm_id,
        video_seconds=video.table.duration_s,
        indices=selection.indices,
        vision_tokens_before=0 if reduced is None else reduced.num_tokens_before,
        vision_tokens_after=0 if reduced is None else len(reduced.tokens),
        input_tokens=None if ended.usage is None else ended.usage.input_tokens,
        output_tokens=None if ended.usage is None else ended.usage.output_tokens,
        latency_s=dict(ended.seconds),
        encoder_device_s=selected.inputs.encoder_device_s,
        model_calls=selection.cost.calls,
        state=str(ended.state),
        error=ended.problem_type,
    )


def _version(facts: DeploymentFacts, sampler_id: str) -> str | None:
    return facts.table.version(sampler_id) if sampler_id in facts.table.ids else None
