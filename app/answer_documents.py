"""What an answer says: the documents that are sent, stored and shown. Frozen."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from app.stores.rows import AnswerState


class Document(BaseModel):
    """Base: immutable, and nothing in it that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FallbackDocument(Document):
    sampler: str = Field(description="The sampler that was decided but failed.")
    kind: str = Field(
        description="raised, contract, deadline, dependency, breaker_open or unknown."
    )
    message: str


class SamplerDocument(Document):
    id: str = Field(description="The sampler that chose the frames.")
    version: str
    options: dict[str, object]
    variant: str | None = Field(description="The flag's variant.")
    reason: str = Field(description="Why this sampler: the flag's reason, OVERRIDE or KILL_SWITCH.")
    flag_version: str | None
    error: str | None = Field(description="What was wrong with the flags, if anything.")
    fallback: FallbackDocument | None = Field(
        description="Set when the decided sampler failed and `uniform` answered for it."
    )
    note: str | None = Field(None, description="Why these frames, where the sampler says so.")


class FrameDocument(Document):
    index: int = Field(description="Frame index in presentation order.")
    seconds: float = Field(description="Presentation time.")
    picture: str = Field(description="Link to the stored picture of this frame.")


class SceneDocument(Document):
    start_s: float
    end_s: float


class BudgetDocument(Document):
    frames: int
    limited_by: str = Field(
        description="min_frames, video_seconds, max_frames, context_tokens, candidates or request."
    )


class TokensDocument(Document):
    before_reduction: int
    after_reduction: int
    reducer: str


class ScorerDocument(Document):
    """What the selection asked of the scoring model, also where it then failed."""

    model: str
    calls: int = Field(description="Requests sent, repeated ones included.")
    retried_calls: int = Field(description="Of these, repetitions of failed ones.")
    cached_scores: int = Field(description="Scores that needed no call.")
    input_tokens: int
    output_tokens: int
    seconds: float = Field(description="That the selection waited for the model.")


class EvidenceDocument(Document):
    """What the answer stands on; complete before the first token."""

    sampler: SamplerDocument
    scorer: ScorerDocument | None = Field(
        None, description="Null where no scoring model was asked or looked up."
    )
    frames: list[FrameDocument]
    scenes: list[SceneDocument] = Field(description="The video's shots, as given to the sampler.")
    budget: BudgetDocument
    vision_tokens: TokensDocument
    caches: dict[str, str] = Field(description="Cache name to hit or miss.")
    encoder: str
    llm: str
    profile: str
    modalities: list[str] = Field(description="What was looked at; Framegate does not hear.")
    warnings: list[str]
    timings_s: dict[str, float] = Field(description="Seconds per stage before generation.")


class UsageDocument(Document):
    input_tokens: int
    output_tokens: int
    finish_reason: str


class AnswerDocument(Document):
    answer_id: str
    video_id: str
    question: str
    state: AnswerState
    answer: str
    created: str = Field(description="ISO 8601, UTC.")
    evidence: EvidenceDocument | None
    usage: UsageDocument | None
    timings_s: dict[str, float] = Field(description="Seconds per stage, and `total`.")
    problem: dict[str, object] | None = Field(
        description="RFC 9457 members; set when the state is failed."
    )
    trace_id: str | None = Field(description="32 hex digits; null while the answer runs.")
