"""Ratings of frames out of a model's text, which was asked for JSON `{"11-12": 5, "33": 2}`.

GenS (arXiv 2503.09146) returns such a text and leaves its reading to the caller. Models write much
else: lists of records, lists in lists, prose, half of it. What can be understood is used, what
cannot is passed over; no text raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from samplers.contract import TimeArray
from samplers.lenient_json import Group, Node, read_groups

MOST_CHARACTERS = 32_768
"""What a text holds beyond is not read; the answers asked for have a few hundred."""
MOST_RATING = 5.0
UNRATED = 1.0
"""The lowest rating asked for: that of frames which are named without any."""

_LARGEST_NUMBER = 10**9
_MOST_SPAN_CHARACTERS = 1_000
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SPAN_WORDS = frozenset(
    {
        "and",
        "frame",
        "frames",
        "from",
        "image",
        "images",
        "no",
        "number",
        "range",
        "ranges",
        "through",
        "time",
        "timestamp",
        "timestamps",
        "to",
        "until",
    }
)
_RANGE_LABELS = frozenset(
    {
        "frame",
        "frames",
        "image",
        "images",
        "index",
        "indices",
        "interval",
        "key",
        "number",
        "numbers",
        "range",
        "ranges",
        "segment",
        "segments",
        "span",
        "time",
        "timestamp",
        "timestamps",
    }
)
_PAIR_LABELS = frozenset({"interval", "range", "segment", "span"})
_FIRST_LABELS = frozenset({"begin", "first", "from", "start"})
_LAST_LABELS = frozenset({"end", "last", "stop", "to", "until"})
_RATING_LABELS = frozenset(
    {
        "confidence",
        "grade",
        "importance",
        "points",
        "rate",
        "rating",
        "ratings",
        "relevance",
        "score",
        "scores",
        "value",
        "weight",
    }
)
_RATING_WORDS = {"one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0}
_ITEM_NUMBER = re.compile(r"\s{0,9}\d{1,3}\.\s{1,9}(?=\D{0,20}\d)")
_SPAN = re.compile(
    r"""
    (?<![\d.-]) (\d++) (?:\.\d++)?+
    (?: \s{0,9} (?: -{1,3} | ~ | \.{2,3} | to | through | until ) \s{0,9}
        (?: (?:frame|image)s? \s{0,9} )? (\d++) (?:\.\d++)?+ )?
    """,
    re.VERBOSE,
)
_RATING = re.compile(
    r"""
    [^\w+-]*+ (?: [A-Za-z]++ [^\w+-]{0,3} )?
    (?: (?P<number> [+-]? \d{1,6} (?:\.\d{1,6})?+ ) (?! \d | \s{0,3} [-~] \s{0,3} \d ) )
    """,
    re.VERBOSE,
)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RatedRange:
    """Frames `first` to `last`, both included, by the numbers that the model saw, and a rating."""

    first: int
    last: int
    rating: float


def rated_ranges(text: str) -> list[RatedRange]:
    """Every range that `text` rates above 0, `first <= last`, in order, however often it names one.

    A range may be a single number, floats are cut, reversed ends swapped. Where nothing in the text
    is rated, the frames it names, and nothing else, are rated `UNRATED`. Time is linear in the
    text, of which `MOST_CHARACTERS` are read.
    """
    answer = text.rpartition("</think>")[2][:MOST_CHARACTERS]
    found = _understood(answer)
    if found or '\\"' not in answer:
        return found
    # JSON within a JSON string.
    return _understood(answer.strip('"\n ').replace('\\"', '"').replace("\\n", "\n"))


def frame_ratings(ranges: Sequence[RatedRange], num_frames: int) -> TimeArray:
    """float64 `[num_frames]`: the highest rating of each frame 1, 2, ..., NaN where it has none.

    What a range names beyond `1..num_frames` is passed over.
    """
    ratings = np.full(num_frames, np.nan)
    for rated in sorted(ranges, key=lambda rated: rated.rating):
        ratings[max(rated.first, 1) - 1 : max(rated.last, 0)] = rated.rating
    return ratings


def _understood(text: str) -> list[RatedRange]:
    lines = read_groups(text)
    rated = [found for line in lines for found in _rated(line)]
    if not rated:
        rated = [RatedRange(*span, UNRATED) for line in lines for span in _named(line)]
    return [found for found in rated if found.rating > 0]


def _rated(group: Group, *, num_brackets: int = 0, is_inner: bool = False) -> Iterator[RatedRange]:
    """`is_inner`: the group stands in a list, as an element without a key."""
    for record in _records(group):
        rating = _labelled_rating(record)
        spans = [] if rating is None else _record_spans(record)
        if not spans:
            spans, rating = _positional(record, is_inner=is_inner)
        if spans and rating is not None:
            yield from (RatedRange(*span, rating) for span in spans)
        else:
            yield from _rated_items(record, num_brackets)


def _rated_items(group: Group, num_brackets: int) -> Iterator[RatedRange]:
    for key, value in group.items:
        spans = _spans(key or "")
        rating = _rating(value) if spans else None
        if rating is not None:
            yield from (RatedRange(*span, rating) for span in spans)
        elif isinstance(value, Group):
            is_inner = key is None and num_brackets > 0
            yield from _rated(value, num_brackets=num_brackets + 1, is_inner=is_inner)


def _records(group: Group) -> Iterator[Group]:
    """The group, cut where a key comes again: some write all records into one pair of brackets."""
    record, seen = Group(), set[str]()
    for key, value in group.items:
        if key is not None and key in seen:
            yield record
            record, seen = Group(), set()
        record.items.append((key, value))
        seen.add(key or "")
    yield record


def _record_spans(group: Group) -> list[Span]:
    """Of `{"range": "11-12", "score": 5}` or `{"start": 11, "end": 12, "score": 5}`: the range."""
    spans: list[Span] = []
    firsts: list[Span] = []
    lasts: list[Span] = []
    for key, value in group.items:
        words = _words(key or "frame")
        if words & _RATING_LABELS:
            continue
        found = _value_spans(value, is_pair=bool(words & _PAIR_LABELS))
        if words & _FIRST_LABELS:
            firsts += found
        elif words & _LAST_LABELS:
            lasts += found
        elif words & _RANGE_LABELS:
            spans += found
    if firsts and lasts:
        return [_ordered(firsts[0][0], lasts[0][1])]
    return spans + firsts + lasts


def _labelled_rating(group: Group) -> float | None:
    for key, value in group.items:
        if key and _words(key) & _RATING_LABELS:
            return _rating(value)
    return None


def _positional(group: Group, *, is_inner: bool) -> tuple[list[Span], float | None]:
    """Of `["11-12", 5]`, or in a list of lists `[33, 2]` and `[11, 12, 5]`: ranges and rating."""
    values = [value for key, value in group.items if key is None]
    if len(values) < len(group.items) or len(values) not in {2, 3}:
        return [], None
    *ends, last = values
    spans = [span for end in ends if isinstance(end, str) for span in _spans(end)]
    rating = _rating(last)
    if len(spans) < len(ends) or rating is None or rating > MOST_RATING:
        return [], None
    if len(ends) == 2:
        return ([_ordered(spans[0][0], spans[1][1])] if is_inner else []), rating
    is_clear = is_inner or isinstance(last, Group) or spans[0][0] < spans[0][1]
    return (spans if is_clear else []), rating


def _value_spans(value: Node, *, is_pair: bool) -> list[Span]:
    if isinstance(value, str):
        return _spans(value)
    texts = [text for key, text in value.items if key is None and isinstance(text, str)]
    spans = [span for text in texts for span in _spans(text)]
    if is_pair and len(texts) == len(spans) == 2:
        return [_ordered(spans[0][0], spans[1][1])]
    return spans


def _named(group: Group) -> Iterator[Span]:
    """Frames that are named without a rating: `{"frames": [11, 33]}`, `{"11-12": null}`."""
    for key, value in group.items:
        if isinstance(value, Group):
            yield from _named(value)
        elif key is None or _words(key) & _RANGE_LABELS:
            yield from _spans(value)
        yield from _spans(key or "")


def _spans(text: str) -> list[Span]:
    """Ranges in a text that holds nothing but ranges; none in any other, nor in times of day."""
    if len(text) > _MOST_SPAN_CHARACTERS or ":" in text or not _words(text) <= _SPAN_WORDS:
        return []
    text = _ITEM_NUMBER.sub("", text, count=1) if _ITEM_NUMBER.match(text) else text
    return [_ordered(_number(m[1]), _number(m[2] or m[1])) for m in _SPAN.finditer(text)]


def _rating(value: Node) -> float | None:
    """The number that `value` begins with, "5", "5/5", "score: 4.5" or "five"; None of a range."""
    if isinstance(value, Group):
        labelled = _labelled_rating(value)
        if labelled is None and len(value.items) == 1:
            return _rating(value.items[0][1])
        return labelled
    found = _RATING.match(value)
    if found:
        return float(found["number"])
    first_word = _WORD.search(value[:20])
    return _RATING_WORDS.get(first_word[0].lower()) if first_word else None


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


def _number(digits: str) -> int:
    # Python refuses to read numbers of many thousand digits, and no frame has one.
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) < 10 else _LARGEST_NUMBER


def _ordered(first: int, last: int) -> Span:
    return (first, last) if first <= last else (last, first)
