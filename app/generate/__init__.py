"""Stage 6, generate: reduced tokens, their times and the question in; streamed text out.

Needs no torch; `gguf_conversion.py` and `preload/` run in processes of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.generate.contract import (
    GenerationOptions,
    LanguageModel,
    TextDelta,
    TokenCount,
    Usage,
)
from app.generate.prompt import PromptRoom, render_prompt
from app.reduce.contract import ReducedTokens


@dataclass(frozen=True, slots=True)
class PromptRules:
    """What a deployment's prompts are made by: the words of the tokens and the LLM's context."""

    labels: Sequence[str]
    """Words of the `D_v` token entries."""
    context_tokens: int
    count: TokenCount


async def generate(
    question: str,
    reduced: ReducedTokens,
    timestamps_s: npt.NDArray[np.float64],
    rules: PromptRules,
    llm: LanguageModel,
    options: GenerationOptions,
) -> AsyncGenerator[TextDelta | Usage, None]:
    """Text deltas, then one `Usage`. `aclose()` stops the generation in the LLM's process too.

    `timestamps_s` float64 `[N]` are the chosen frames' times. Raises `QuestionTooLongError` and
    `LlmUnavailableError`.
    """
    room = PromptRoom(rules.context_tokens - options.max_tokens, rules.count)
    messages = render_prompt(question, reduced, timestamps_s, rules.labels, room)
    async with aclosing(llm.stream(messages, options)) as pieces:
        async for piece in pieces:
            yield piece
