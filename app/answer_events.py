"""What happens while a question is answered, in this order; `app/api/answers.py` sends it.

IndexProgress*   FramesSelected   Evidence   TextDelta*   Usage
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from app.answer_documents import EvidenceDocument
from app.evidence import DeploymentFacts, EvidenceParts, SelectionParts
from app.generate.contract import TextDelta, Usage
from app.index_job import IndexProgress


@dataclass(frozen=True, slots=True)
class FramesSelected:
    """For the records, which keep a selection however its answer ends; never sent."""

    parts: SelectionParts
    facts: DeploymentFacts


@dataclass(frozen=True, slots=True)
class Evidence:
    """Complete before the first token."""

    document: EvidenceDocument
    parts: EvidenceParts
    """What the document was made of."""


AnswerEvent: TypeAlias = IndexProgress | Evidence | TextDelta | Usage
Emit: TypeAlias = Callable[[AnswerEvent], Awaitable[None]]
EmitAll: TypeAlias = Callable[[AnswerEvent | FramesSelected], Awaitable[None]]
