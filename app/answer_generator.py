"""Stage 6 of a deployment: the LLM, its context length and the words of the encoder's tokens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from app.encoders.contract import EncoderInfo
from app.errors import EncoderUnavailableError
from app.generate import PromptRules, generate
from app.generate.contract import LanguageModel, TextDelta, Usage
from app.generate.prompt import prompt_tokens_per_vision_token, tokens_without_notes
from app.generate.token_counter import PromptCounter
from app.question import Question
from app.reduce.contract import ReducedTokens


@dataclass(frozen=True, slots=True)
class LlmRoom:
    """What the LLM's context has left for the video."""

    free_tokens: int
    tokens_per_vision_token: int
    """LLM tokens that one vision token after reduction costs, at most."""


class AnswerGenerator:
    """Built once. `counter` returns what counts the LLM's tokens, as soon as its file is there."""

    def __init__(
        self, llm: LanguageModel, counter: Callable[[], PromptCounter], context_tokens: int
    ) -> None:
        self.llm = llm
        self._counter = counter
        self.context_tokens = context_tokens

    def room(self, question: Question, encoder: EncoderInfo, last_timestamp_s: float) -> LlmRoom:
        """Blocks for some milliseconds the first time. Raises `LlmUnavailableError`."""
        counter = self._counter()
        asked = tokens_without_notes(question.text, counter.count_messages)
        digits = len(str(int(last_timestamp_s)))
        return LlmRoom(
            free_tokens=self.context_tokens - question.options.max_tokens - asked,
            tokens_per_vision_token=_cost_of_token(_labels(encoder), 10.0**digits - 1, counter),
        )

    def generate(
        self, question: Question, reduced: ReducedTokens, encoder: EncoderInfo, seconds: list[float]
    ) -> AsyncGenerator[TextDelta | Usage, None]:
        """Text, then usage. Raises `LlmUnavailableError`; closing it stops the generation."""
        rules = PromptRules(_labels(encoder), self.context_tokens, self._counter().count_messages)
        times = np.array(seconds, dtype=np.float64)
        return generate(question.text, reduced, times, rules, self.llm, question.options)


def _labels(encoder: EncoderInfo) -> tuple[str, ...]:
    if encoder.token_labels is None:
        raise EncoderUnavailableError("This profile's tokens have no words.")
    return encoder.token_labels


@lru_cache(maxsize=64)
def _cost_of_token(labels: Sequence[str], longest_time_s: float, counter: PromptCounter) -> int:
    """A thousand labels take some 30 ms; the arguments repeat."""
    return prompt_tokens_per_vision_token(labels, longest_time_s, counter.count_text)
