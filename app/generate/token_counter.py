"""Counts tokens as the LLM will: by the tokenizer file of its model folder, without torch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from app.errors import LlmUnavailableError
from app.generate.contract import ChatMessage

TOKENIZER_FILE = "tokenizer.json"
ANSWER_HEADER = "<|im_start|>assistant\n"
MESSAGE_TOKENS = 16
"""More than any chat template known to us adds to a message."""


class PromptCounter(Hashable, Protocol):
    """Counts what a prompt costs; never less than it really does."""

    def count_text(self, text: str) -> int: ...

    def count_messages(self, messages: Sequence[ChatMessage]) -> int: ...


class ByteCounter:
    """For a language model whose tokenizer is not at hand: no tokenizer makes more than bytes."""

    def count_text(self, text: str) -> int:
        return len(text.encode("utf-8", "surrogatepass"))

    def count_messages(self, messages: Sequence[ChatMessage]) -> int:
        return sum(MESSAGE_TOKENS + self.count_text(m.role + m.content) for m in messages)


class TokenCounter:
    """For models whose chat template is ChatML, as SmolLM2's is."""

    def __init__(self, model_folder: Path) -> None:
        """Reads the file, about 0.1 s. Raises `LlmUnavailableError` when it is not there."""
        file = model_folder / TOKENIZER_FILE
        if not file.is_file():
            raise LlmUnavailableError(f"The language model's folder has no {TOKENIZER_FILE}.")
        self._tokenizer = Tokenizer.from_file(str(file))

    def count_text(self, text: str) -> int:
        """Tokens of `text`, nothing added."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def count_messages(self, messages: Sequence[ChatMessage]) -> int:
        """Tokens of the whole prompt, with the header of the answer. A `TokenCount`."""
        rendered = "".join(f"<|im_start|>{m.role}\n{m.content}<|im_end|>\n" for m in messages)
        return self.count_text(rendered + ANSWER_HEADER)
