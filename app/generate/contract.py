"""What stage 6 gives and needs: streamed text, from a language model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias


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

    async def aclose(self) -> None: ...

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
