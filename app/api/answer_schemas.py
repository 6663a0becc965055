"""The request for an answer. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

VideoId = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="Hex sha256 of the bytes.")]

EXAMPLE_VIDEO_ID = "5e1f0c0d6a8f4f0c9a7d1b2e3c4d5f60718293a4b5c6d7e8f90123456789abcd"


class AskRequest(BaseModel):
    """One question about one video."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [{"video_id": EXAMPLE_VIDEO_ID, "question": "What is the man riding?"}]
        },
    )

    video_id: VideoId
    question: str = Field(min_length=1, description="The user's question, as text.")
    user_id: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="Sticky key of sampler assignment; without it the default arm answers.",
    )
    budget: int | None = Field(
        None, ge=1, le=100_000, description="At most so many frames; it may only lower the budget."
    )
    stream: bool = Field(False, description="Server-sent events instead of one JSON document.")
    max_tokens: int | None = Field(None, ge=1, description="Longest answer, in tokens of the LLM.")
    temperature: float = Field(0.0, ge=0.0, le=2.0, description="0 is greedy.")
    seed: int | None = Field(None, ge=0, le=2**31 - 1, description="Seed when temperature > 0.")
    wait_s: float | None = Field(
        None, ge=0.0, description="Seconds to wait for a video that is still indexed; default 30."
    )
    sampler: str | None = Field(
        None, min_length=1, max_length=128, description="Operators only: the sampler to use."
    )
