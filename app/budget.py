"""How many frames a sampler may return: the caller decides, by video length and LLM room.

Never a token count in a sampler, never a constant: DESIGN's anti-patterns (a) and (d).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from app.errors import QuestionTooLongError


class BudgetLimit(StrEnum):
    """Which term of the budget won."""

    MIN_FRAMES = "min_frames"
    VIDEO_SECONDS = "video_seconds"
    MAX_FRAMES = "max_frames"
    CONTEXT_TOKENS = "context_tokens"
    CANDIDATES = "candidates"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """`clamp(min_frames, seconds x target_fps, max_frames)` of a deployment."""

    min_frames: int
    max_frames: int
    target_fps: float


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """What one question brings: the video's length and candidates, the LLM's room, the request."""

    video_seconds: float
    num_candidates: int
    free_context_tokens: int
    tokens_per_frame: float
    """LLM tokens that one chosen frame costs after reduction, at most."""
    requested_frames: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    frames: int
    limited_by: BudgetLimit


def frame_budget(rule: BudgetRule, terms: BudgetTerms) -> Budget:
    """The budget in frames and the term that set it; on a tie the earlier term of the formula.

    Raises `QuestionTooLongError` when the question leaves no room for a single frame.
    """
    wanted = math.ceil(terms.video_seconds * rule.target_fps)
    by_length = Budget(wanted, BudgetLimit.VIDEO_SECONDS)
    if wanted < rule.min_frames:
        by_length = Budget(rule.min_frames, BudgetLimit.MIN_FRAMES)
    elif wanted > rule.max_frames:
        by_length = Budget(rule.max_frames, BudgetLimit.MAX_FRAMES)

    room = int(terms.free_context_tokens // terms.tokens_per_frame)
    if room < 1:
        raise QuestionTooLongError(
            f"{max(0, terms.free_context_tokens)} tokens are left for the video; "
            f"one frame needs {math.ceil(terms.tokens_per_frame)}"
        )
    choices = [
        by_length,
        Budget(room, BudgetLimit.CONTEXT_TOKENS),
        Budget(terms.num_candidates, BudgetLimit.CANDIDATES),
    ]
    if terms.requested_frames is not None:
        choices.append(Budget(terms.requested_frames, BudgetLimit.REQUEST))
    return min(choices, key=lambda choice: choice.frames)
