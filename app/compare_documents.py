"""What a comparison of samplers says of one question: HTTP's document, and what is drawn."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.answer_documents import SceneDocument, ScorerDocument


class ComparedFrameDocument(BaseModel):
    index: int = Field(description="In presentation order.")
    seconds: float = Field(description="From the first shown frame.")
    cosine: float | None = Field(description="With the question.")
    picture: str


class ComparisonFailureDocument(BaseModel):
    """In an answer, `uniform` would have stood in."""

    kind: str
    message: str


class ComparedSamplerDocument(BaseModel):
    """One sampler's row. Where it failed there are no frames and no measures."""

    id: str
    version: str
    options: dict[str, Any]
    frames: list[ComparedFrameDocument]
    relevance: float | None = Field(description="Mean cosine of the frames with the question.")
    redundancy: float | None = Field(description="Mean cosine of all pairs of the frames.")
    scene_coverage: float | None = Field(
        description="Shots with a chosen frame / shots that so many frames can reach."
    )
    distance_s: float | None = Field(
        description="1-Wasserstein distance of the times from the first sampler's."
    )
    overlap: float | None = Field(description="Frames shared with the first sampler, 0..1.")
    latency_s: float = Field(description="Of the sampler's call, scores included.")
    scorer: ScorerDocument | None = Field(
        description="Null where no scoring model was asked or looked up."
    )
    note: str | None = Field(description="Why these frames, where the sampler says so.")
    failure: ComparisonFailureDocument | None


class SimilarityDocument(BaseModel):
    """Cosine of the candidates with the question. Many candidates are grouped, in order."""

    seconds: list[float]
    cosines: list[float] = Field(description="Of a group its mean.")
    lowest: list[float] | None = Field(description="Of each group; null without groups.")
    highest: list[float] | None = Field(description="Of each group; null without groups.")


class ComparisonDocument(BaseModel):
    """Samplers side by side, for one question about one video."""

    model_config = ConfigDict(frozen=True)

    video_id: str
    question: str
    budget: int
    encoder: str
    duration_s: float
    width: int
    height: int
    num_candidates: int
    scenes: list[SceneDocument]
    similarity: SimilarityDocument | None = Field(
        description="Null where the question has no vector; a warning says why."
    )
    samplers: list[ComparedSamplerDocument] = Field(description="In the order of the request.")
    warnings: list[str]
