"""Turns reduced tokens into a prompt: notes of what was seen and when, then the question. Pure.

The shape was chosen by trying eight with SmolLM2-135M on notes of real clips (docs/processes.md):
one worked example, plain phrases and the question last kept its answers closest to the notes. Names
of places in the picture ("left", "right") made it invent things, so a note has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from app.errors import QuestionTooLongError
from app.generate.contract import ChatMessage, TokenCount
from app.reduce.contract import ReducedTokens

SYSTEM = (
    "You answer questions about a video. You cannot see it; you only have notes of what a picture "
    "classifier saw, with times in seconds. Answer in one or two sentences, using only the notes."
)
EXAMPLE_NOTES = "At 0.0 s: sandbar, seashore; perhaps umbrella\nAt 4.0 s: speedboat, catamaran\n"
EXAMPLE_QUESTION = "What boats are there?"
EXAMPLE_ANSWER = "The notes show a speedboat and a catamaran at 4.0 s."

MAX_LABELS_PER_TOKEN = 3
CLEAR_SHARE = 0.1
"""A label with at least this share of a token counts as seen; a lower first label is "perhaps"."""


@dataclass(frozen=True, slots=True)
class PromptRoom:
    """How long a prompt may be: the context less the answer, in tokens of the LLM's tokenizer."""

    tokens: int
    count: TokenCount


@dataclass(frozen=True, slots=True)
class _Note:
    """What one reduced token says."""

    start_s: float
    end_s: float
    clear: tuple[str, ...]
    unclear: tuple[str, ...]


def render_prompt(
    question: str,
    reduced: ReducedTokens,
    timestamps_s: npt.NDArray[np.float64],
    labels: Sequence[str],
    room: PromptRoom,
) -> list[ChatMessage]:
    """The chat messages of one question; at most `room.tokens` tokens by `room.count`.

    `timestamps_s` float64 `[N]` are the chosen frames' times; `labels` name the `D_v` entries of a
    token. Every token is named, its second and third label only where they fit. Raises
    `QuestionTooLongError` when even one label a token does not fit.
    """
    for num_labels in range(MAX_LABELS_PER_TOKEN, 0, -1):
        notes = _notes(reduced, timestamps_s, labels, num_labels)
        messages = _messages(_lines(notes), question)
        needed = room.count(messages)
        if needed <= room.tokens:
            return messages
    raise QuestionTooLongError(
        f"The prompt needs {needed} tokens; the language model has room for {room.tokens}."
    )


def tokens_without_notes(question: str, count: TokenCount) -> int:
    """What the prompt costs before the first note: the budget subtracts it from the context."""
    return count(_messages("", question))


def prompt_tokens_per_vision_token(
    labels: Sequence[str], last_timestamp_s: float, count_text: Callable[[str], int]
) -> int:
    """LLM tokens that one reduced token costs at most when it is named by one label.

    The dearest label on a line of its own, with the two longest times of the video. A token that
    shares its line costs less, as the time is written once.
    """
    longest = "9" * (len(f"{last_timestamp_s:.1f}") - 2) + ".9"
    head = _time_text(0.0, 1.0).replace("0.0", longest).replace("1.0", longest)
    shortened = {_short(label) for label in labels}
    return max(count_text(f"At {head}: perhaps {label}\n") for label in shortened)


def _messages(lines: str, question: str) -> list[ChatMessage]:
    return [
        ChatMessage("system", SYSTEM),
        ChatMessage("user", _asked(EXAMPLE_NOTES, EXAMPLE_QUESTION)),
        ChatMessage("assistant", EXAMPLE_ANSWER),
        ChatMessage("user", _asked(lines, question)),
    ]


def _asked(lines: str, question: str) -> str:
    # Chat templates mark turns by <|...|>: a question that holds such marks must not end its turn.
    question = question.replace("<|", "< |")
    return (
        f"Picture notes of the video:\n{lines}\n"
        f"Using only these notes, answer in one short sentence: {question}"
    )


def _notes(
    reduced: ReducedTokens,
    timestamps_s: npt.NDArray[np.float64],
    labels: Sequence[str],
    num_labels: int,
) -> list[_Note]:
    """One note a token, in order of time."""
    notes = []
    shares = np.nan_to_num(reduced.tokens, nan=0.0, posinf=0.0, neginf=0.0)
    for token, (first, last), position in zip(
        shares, reduced.frame_spans, reduced.positions, strict=True
    ):
        clear, unclear = _named(token, labels, num_labels)
        span = (float(timestamps_s[first]), float(timestamps_s[last]))
        notes.append((span, int(position), _Note(*span, clear, unclear)))
    notes.sort(key=lambda entry: entry[:2])
    return [note for _, _, note in notes]


def _named(
    shares: npt.NDArray[np.float32], labels: Sequence[str], num_labels: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels that are clearly seen, or else the likeliest one as unclear."""
    # Sorting a thousand shares costs ten times as much as sorting those that can be named. A stable
    # sort of the negated shares: equal ones keep the order of the labels.
    lowest = np.partition(shares, -num_labels)[-num_labels] if num_labels < len(shares) else -np.inf
    nameable = np.flatnonzero(shares >= lowest)
    ranked = nameable[np.argsort(-shares[nameable], kind="stable")][:num_labels]
    clear = tuple(_short(labels[i]) for i in ranked if shares[i] >= CLEAR_SHARE)
    return (clear, ()) if clear else ((), (_short(labels[ranked[0]]),))


def _short(label: str) -> str:
    """The first of a label's alternatives: "baluster / handrail", "cap (of a bottle)"."""
    return label.split(" / ", maxsplit=1)[0].split(" (", maxsplit=1)[0]


def _lines(notes: list[_Note]) -> str:
    """Notes of one span share a line, each label once."""
    lines = []
    for (start_s, end_s), group in groupby(notes, key=lambda note: (note.start_s, note.end_s)):
        together = list(group)
        clear = dict.fromkeys(label for note in together for label in note.clear)
        unclear = dict.fromkeys(
            label for note in together for label in note.unclear if label not in clear
        )
        parts = [", ".join(clear)] if clear else []
        if unclear:
            parts.append("perhaps " + ", ".join(unclear))
        lines.append(f"At {_time_text(start_s, end_s)}: {'; '.join(parts)}\n")
    return "".join(lines)


def _time_text(start_s: float, end_s: float) -> str:
    return f"{start_s:.1f} s" if start_s == end_s else f"{start_s:.1f} to {end_s:.1f} s"
