"""Texts of a comparison: times, and lines that fit."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

_ELLIPSIS: Final = "…"


def time_text(seconds: float, duration_s: float) -> str:
    """`7.43 s`, `12:07.4` or `1:02:07`, as fine as a video of this length needs."""
    if duration_s < 60:
        return f"{seconds:.2f} s"
    if duration_s < 3600:
        tenths = round(seconds * 10)
        return f"{tenths // 600}:{tenths // 10 % 60:02d}.{tenths % 10}"
    return clock_text(seconds, duration_s)


def clock_text(seconds: float, duration_s: float) -> str:
    """`0:07` or `1:02:07`: whole seconds."""
    whole = round(seconds)
    if duration_s < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def readable(text: str) -> str:
    """On one line, without what is no sign of its own or turns the order of the others around."""
    spaced = "".join(
        sign if unicodedata.category(sign)[0] not in "CZ" or sign == "\u200d" else " "
        for sign in text
    )
    return " ".join(spaced.split())


def wrapped(text: str, max_columns: int, max_lines: int) -> list[str]:
    """Lines of at most so many columns, broken at spaces where there are any; the rest is cut off.

    A sign of East Asian width counts twice.
    """
    lines, line = [], ""
    for word in _pieces(text.split(), max_columns):
        joined = f"{line} {word}" if line else word
        if _columns(joined) <= max_columns:
            line = joined
        else:
            lines.append(line)
            line = word
    lines.append(line)
    if len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], _cut(lines[max_lines - 1], max_columns - 1) + _ELLIPSIS]
    return lines


def shortened(text: str, max_columns: int) -> str:
    """One line, cut off where it is too long."""
    return wrapped(readable(text), max_columns, 1)[0]


def _pieces(words: Iterable[str], max_columns: int) -> Iterable[str]:
    for word in words:
        rest = word
        while _columns(rest) > max_columns:
            head = _cut(rest, max_columns)
            yield head
            rest = rest[len(head) :]
        yield rest


def _cut(text: str, max_columns: int) -> str:
    """The longest beginning of so many columns; at least one sign."""
    used = 0
    for number, sign in enumerate(text):
        used += _columns(sign)
        if used > max_columns:
            return text[: max(1, number)]
    return text


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
