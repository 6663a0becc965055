from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samplers.lenient_json import MOST_DEPTH, Group, Node, read_groups

SCALARS = st.integers(-99, 999).map(str) | st.text("abc xyz,:{}[]", min_size=1, max_size=9)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SCALARS, inner, max_size=4),
    max_leaves=20,
)


def plain(node: Node) -> object:
    """Groups as the lists and mappings that they were written as."""
    if isinstance(node, str):
        return node
    if any(key is not None for key, _ in node.items):
        return {key: plain(value) for key, value in node.items}
    return [plain(value) for _, value in node.items]


def lines(text: str) -> list[object]:
    return [plain(group) for group in read_groups(text)]


def without_empty(value: object) -> object:
    """What cannot be told apart here: an empty mapping and an empty list."""
    if isinstance(value, dict):
        return {key: without_empty(inner) for key, inner in value.items()} or []
    return [without_empty(inner) for inner in value] if isinstance(value, list) else value


@given(VALUES, st.sampled_from([None, 2]))
def test_json_comes_out_as_it_was(value: object, indent: int | None) -> None:
    wrapped = {"given": value}
    assert lines(json.dumps(wrapped, indent=indent)) == [[without_empty(wrapped)]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': '1', 'b': \"2\"}", [[{"a": "1", "b": "2"}]]),
        ("{a: 1, b: 2}", [[{"a": "1", "b": "2"}]]),
        ('{"a": 1, "b": 2,}', [[{"a": "1", "b": "2"}]]),
        ('{"a": 1 "b": 2}', [[{"a": "1", "b": "2"}]]),
        ('{"a": one or two "b": 2}', [[{"a": "one or two", "b": "2"}]]),
        ("a: b: 1", [{"b": "1"}]),
        ('{"a": [1, 2', [[{"a": ["1", "2"]}]]),
        ('{"a": 1, "b', [[{"a": "1", None: "b"}]]),
        ('{"a":\n 1,\n"b":\n2}', [[{"a": "1", "b": "2"}]]),
        ("{“a”： 1，“b”： 2}", [[{"a": "1", "b": "2"}]]),
        ('```json\n{"a": 1}\n```\nHope that helps!', [["```json"], [{"a": "1"}]]),
        ("a: 1\nb = 2", [{"a": "1"}, {"b": "2"}]),
        ("11-12 -> 5", [{"11-12": "5"}]),
        (r'{"11\u201312": 5}', [[{"11-12": "5"}]]),
        ("[11] - [12]: 5", [{"11 -12": "5"}]),
        ("It's so: {'a': 1}", [{"It s so": {"a": "1"}}]),
        ("00:11: 5", [{"00:11": "5"}]),
        ("]}) [1]", [[["1"]]]),
        ('"5\' 11" tall', [["5' 11 tall"]]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_what_is_wrong_is_passed_over(text: str, expected: list[object]) -> None:
    assert lines(text)[: len(expected)] == expected


def test_repeated_keys_are_all_kept() -> None:
    (line,) = read_groups('{"a": 1, "a": 2}')
    assert line.items == [(None, Group([("a", "1"), ("a", "2")]))]


def test_brackets_beyond_the_bound_are_not_looked_at() -> None:
    node: Node = read_groups("[" * 10_000 + "1")[0]
    depth = 0
    while isinstance(node, Group):
        (_, node) = node.items[0]
        depth += 1
    assert (depth, node) == (MOST_DEPTH + 1, "1")


@given(st.text() | st.text("[]{}()\"',:=\\\n 1-a"))
def test_no_text_raises(text: str) -> None:
    assert all(group.items for group in read_groups(text))
