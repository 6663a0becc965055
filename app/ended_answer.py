"""What is known of an answer once it has ended: for the ledger and for the shadow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from app.evidence import DeploymentFacts, EvidenceParts, SelectionParts
from app.generate.contract import Usage
from app.question import Question
from app.stores.rows import AnswerState


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAnswer:
    """However it ended."""

    question: Question
    state: AnswerState
    created: datetime
    selected: SelectionParts | None
    """None where it ended before its frames were selected."""
    facts: DeploymentFacts | None
    """There whenever `selected` is."""
    parts: EvidenceParts | None
    """None where it ended before the frames' tokens were made."""
    text: str
    """What was said until then."""
    usage: Usage | None
    problem_type: str | None
    seconds: Mapping[str, float]
    """By stage, and `total`."""


OnEnded: TypeAlias = Callable[[EndedAnswer], None]
"""Called on the event loop after the answer ended: returns at once. What it raises is logged."""
