"""One question, validated at the door; trusted inside."""

from __future__ import annotations

from dataclasses import dataclass

from app.generate.contract import GenerationOptions


@dataclass(frozen=True, slots=True)
class Question:
    answer_id: str
    tenant: str
    video_id: str
    text: str
    user_id: str | None
    requested_frames: int | None
    """At most so many frames; None leaves the budget to the deployment's rule."""
    sampler_override: str | None
    """Set by operators only."""
    wait_s: float
    options: GenerationOptions
