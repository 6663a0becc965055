"""Reads what a model wrote where it was asked for JSON, whatever is wrong with it.

Nothing is refused: code fences and prose around, single, curly or missing quotes, missing or extra
commas, repeated keys, brackets that never close. What comes out are nested groups of `key: text`,
to be searched for what is usable. Time and memory are linear in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

MOST_DEPTH = 16
"""Brackets within this many brackets are not looked at."""

_PLAIN_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
        **dict.fromkeys("～〜∼", "~"),
        **dict.fromkeys("“”„‟«»＂", '"'),
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("：→", ":"),
        **dict.fromkeys("，、；;", ","),
        **dict.fromkeys("\r\u2028\u2029", "\n"),
        "\u00a0": " ",
        "\ufeff": None,
        "\u200b": None,
    }
)
_ESCAPED_CHARACTER = re.compile(r"\\u([0-9a-fA-F]{4})")
_BRACKETED_KEY = re.compile(r"\[([\d ,-]{1,40})\](?= {0,3}[-:])|(?<=-) {0,3}\[(\d{1,9})\]")
# No alternative can match one text in two ways, so that nothing is ever tried again.
_TOKEN = re.compile(
    r"""
    "(?P<double>(?:[^"\\\n]|\\.)*+)"?               # an unclosed quote ends with its line
    | '(?P<single>[^'\n]*+)'(?=\s*+(?:[:,\])}]|$))  # any other is an apostrophe
    | (?P<open>[\[{(])
    | (?P<close>[\])}])
    | (?P<word>\d++:\d\d(?!\d) | [^\s\[\](){}:=,"']++)  # a time of day is one word
    | (?P<colon>[:=])
    | (?P<comma>,)
    | (?P<line>\n)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Group:
    """The contents of one pair of brackets, or of one line outside all brackets, in order."""

    items: list[tuple[str | None, Node]] = field(default_factory=list)
    """Key, or None where there is none, and value."""


Node: TypeAlias = str | Group


def read_groups(text: str) -> list[Group]:
    """One group a line of `text`; what a bracket holds belongs to the line that opens it."""
    text = _ESCAPED_CHARACTER.sub(lambda match: chr(int(match[1], 16)), text)
    text = text.translate(_PLAIN_CHARACTERS).replace("->", ":")
    text = _BRACKETED_KEY.sub(lambda match: match[1] or match[2], text)
    reader = _Reader()
    for token in _TOKEN.finditer(text):
        reader.read(str(token.lastgroup), token[token.lastgroup or 0])
    return reader.finish()


class _Reader:
    """Builds the groups, one token at a time."""

    def __init__(self) -> None:
        self._lines = [Group()]
        self._open: list[tuple[str | None, Group]] = []
        """The brackets around this place, outermost first, each with its key."""
        self._key: str | None = None
        self._words: list[str] = []
        """What came since the last separator."""

    def read(self, kind: str, content: str) -> None:
        if kind in {"double", "single", "word"}:
            self._words.append(content)
        elif kind == "colon":
            self._take_key()
        elif kind == "open":
            self._open_bracket()
        elif kind == "line":
            self._end_line()
        else:
            self._end_value()
            if kind == "close":
                self._close_bracket()

    def finish(self) -> list[Group]:
        self._end_value()
        while self._open:
            self._close_bracket()
        return [line for line in self._lines if line.items]

    def _end_line(self) -> None:
        # Inside brackets a value may stand on the line after its key.
        self._take_value()
        if not self._open:
            self._key = None
            if self._lines[-1].items:
                self._lines.append(Group())

    def _end_value(self) -> None:
        self._take_value()
        self._key = None

    def _open_bracket(self) -> None:
        self._take_value()
        if len(self._open) < MOST_DEPTH:
            self._open.append((self._key, Group()))
        self._key = None

    def _take_value(self) -> None:
        if self._words:
            self._group().items.append((self._key, " ".join(self._words)))
            self._words, self._key = [], None

    def _take_key(self) -> None:
        if self._key is not None and len(self._words) > 1:
            # A comma is missing: the last word is the next key.
            self._group().items.append((self._key, " ".join(self._words[:-1])))
            self._words = self._words[-1:]
        if self._words:
            self._key, self._words = " ".join(self._words), []

    def _close_bracket(self) -> None:
        if self._open:
            key, group = self._open.pop()
            self._group().items.append((key, group))

    def _group(self) -> Group:
        return self._open[-1][1] if self._open else self._lines[-1]
