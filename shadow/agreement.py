"""How two answers to one question are compared: exactly where a choice was asked for. Pure."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum


class AgreementMethod(StrEnum):
    EXACT = "exact"
    EMBEDDING = "embedding"


_OPTION = re.compile(r"(?:^|[\s(\[,;])([A-H])[).:\]]\s*\S")
"""`A) red`, `(B) blue`, `C. green`, `D: none`."""
_CHOSEN = re.compile(
    r"^(?:the\s+)?(?:(?:correct\s+)?(?:answer|option|choice)\s*(?:is|:)?\s*)?[(\[]?([a-h])(?:[).:\],]|$)"
)
_YES_NO_QUESTION = re.compile(
    r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b", re.IGNORECASE
)
_YES_NO = re.compile(r"^(yes|no)\b")
_WORD_OR = re.compile(r"\bor\b", re.IGNORECASE)


def has_options(question: str) -> bool:
    """The question lists options under the letters A, B, … from A on, at least two."""
    letters = list(dict.fromkeys(_OPTION.findall(question)))
    return len(letters) >= 2 and letters == sorted(letters) and letters[0] == "A"


def exact_agreement(question: str, first: str, second: str) -> float | None:
    """1 or 0 where the question asks for a choice, else None: compare meanings instead.

    A choice is a question with lettered options (each answer counts as the letter it begins with,
    else as its text), or one that begins with is, are, does, … without an "or", when both answers
    begin with yes or no. Texts are compared without case, punctuation at the ends and spacing.
    """
    one, other = normalised(first), normalised(second)
    if has_options(question):
        return float(_chosen(one) == _chosen(other))
    asks_yes_or_no = _YES_NO_QUESTION.match(question.strip()) and not _WORD_OR.search(question)
    says = (_YES_NO.match(one), _YES_NO.match(other))
    if asks_yes_or_no and says[0] and says[1]:
        return float(says[0][1] == says[1][1])
    return None


def normalised(answer: str) -> str:
    """NFKC, case folded, white space as single spaces, no punctuation around it."""
    folded = unicodedata.normalize("NFKC", answer).casefold()
    return " ".join(folded.split()).rstrip(".,;:!?\"' ").lstrip("\"' ")


def _chosen(answer: str) -> str:
    found = _CHOSEN.match(answer)
    return found[1] if found else answer
