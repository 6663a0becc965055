"""What stage 6 takes and gives: reduced tokens with their time spans, in; streamed text, out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ReducedTokens:
    """Stage 5's result: `N'` tokens and where each came from.

    `frame_spans[k]` are positions into the selection (first, last; inclusive) of the frames that
    token k was made of, `positions[k]` its place inside the frame (0..P-1).
    """

    tokens: npt.NDArray[np.float32]
    """`[N', D_v]`."""
    frame_spans: npt.NDArray[np.int64]
    """`[N', 2]`, inclusive positions into the chosen frames."""
    positions: npt.NDArray[np.int64]
    """`[N']`."""
    num_tokens_before: int
    """N x P."""


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: str
    content: str


TokenCount: TypeAlias = Callable[[Sequence[ChatMessage]], int]
"""Tokens that the LLM's chat template makes of these messages, answer header included."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int
    output_tokens: int
    finish_reason: str


class LanguageModel(Protocol):
    """An OpenAI-compatible chat server; raises `LlmUnavailableError` when it is away."""

    @property
    def llm_id(self) -> str: ...

    def stream(
        self, messages: list[ChatMessage], options: GenerationOptions
    ) -> AsyncGenerator[TextDelta | Usage, None]:
        """Text deltas, then exactly one Usage. `aclose()` stops the generation (use `aclosing`).

        Raises `LlmUnavailableError` (away, too slow, or its stream broke) and
        `QuestionTooLongError` (the prompt exceeds the model's context).
        """
        ...

    async def is_healthy(self) -> bool:
        """The server answers now. Never raises."""
        ...
