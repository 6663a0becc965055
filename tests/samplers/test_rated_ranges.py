from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samplers.rated_ranges import MOST_CHARACTERS, RatedRange, frame_ratings, rated_ranges
from samplers.testing_scorers import MALFORMED_TEXTS

BOTH = [(11, 12, 5.0), (33, 33, 2.0)]
Triples = list[tuple[int, int, float]]


def triples(text: str) -> Triples:
    return [(found.first, found.last, found.rating) for found in rated_ranges(text)]


@pytest.mark.parametrize(
    "text",
    [
        '{"11-12": 5, "33": 2}',
        '```json\n{\n  "11-12": 5,\n  "33": 2\n}\n```',
        'Sure! Here it is: {"11-12": 5, "33": 2}. Frames 11 and 12 show the cat at its 9 lives.',
        '<think>Maybe 1-9: 3? No.</think>\n{"11-12": 5, "33": 2}',
        "{'11-12': 5, '33': 2}",
        "{11-12: 5, 33: 2}",
        '{"11-12": 5, "33": 2,}',
        '{"11-12": 5 "33": 2}',
        '{"11-12": 5, "33": 2, "4',
        '{"11-12": 5, "33": 2, "40": ',
        '{"11-12": 5}\n{"33": 2}',
        '{"11 - 12": 5, " 33 ": 2}',
        '{"11–12": 5, "33": 2}',
        '{"11—12": 5, "33": 2}',
        r'{"11\u201312": 5, "33": 2}',
        '{"11 to 12": 5, "33": 2}',
        '{"11..12": 5, "33": 2}',
        '{"12-11": 5, "33-33": 2}',
        '{"11.0-12.0": 5.0, "33.7": 2.0}',
        '{"11-12": "5", "33": "2"}',
        '{"11-12": "5/5", "33": "score: 2"}',
        '{"11-12": "five", "33": "Two: the cat"}',
        '{"11-12": "5 out of 5", "33": "2 - hardly"}',
        '{"11-12": [5], "33": [2]}',
        '{"11-12": {"score": 5, "reason": "9 cats"}, "33": {"score": 2}}',
        '{"frames": {"11-12": 5, "33": 2}}',
        '{"frames": {"11-12": 5, "33": 2}, "overall score": 4}',
        '{"frame 11 - frame 12": 5, "Frame 33": 2}',
        '[{"11-12": 5}, {"33": 2}]',
        '[{"range": "11-12", "score": 5}, {"range": "33", "score": 2}]',
        '[{"score": 5, "range": [11, 12]}, {"score": 2, "range": [33, 33]}]',
        '[{"timestamp or range": "11-12", "rating": "5"}, {"frame": 33, "rating": "2"}]',
        '[{"start": 11, "end": 12, "score": 5}, {"start": 33, "end": 33, "score": 2}]',
        '[{"startFrame": 11, "end_frame": 12, "relevance_score": 5, "why": "3 cats"}, '
        '{"frame_id": 33, "frame_score": 2}]',
        '{"results": [{"range": "11-12", "score": 5}, {"range": "33", "score": 2}]}',
        '{"range": "11-12", "score": 5, "range": "33", "score": 2}',
        '[{"first": 11, "why": "99", "last": 12, "score": 5}, {"start": 33, "score": 2}]',
        '[["11-12", 5], ["33", 2]]',
        "[[11, 12, 5], [33, 33, 2]]",
        r'"{\"11-12\": 5,\n\"33\": 2}"',
        "Frames 11-12: 5\nFrame 33: 2",
        "1. Frames 11-12: 5\n2. Frame 33: 2",
        "- **11-12**: 5\n- **33**: 2",
        "[11]-[12]: 5\n[33]: 2",
        "Frames 11-12 (score: 5)\nFrame 33 (score: 2)",
        "Frames 11-12, score: 5\nFrame 33, score: 2",
        "11-12 → 5\n33 -> 2",
        "“11-12”： 5，“33”： 2",
    ],
)
def test_every_way_of_writing_it_is_understood(text: str) -> None:
    assert triples(text) == BOTH


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"11": 3, "11": 5}', [(11, 11, 3.0), (11, 11, 5.0)]),
        ('{"11, 13-14 and 16": 4}', [(11, 11, 4.0), (13, 14, 4.0), (16, 16, 4.0)]),
        ('{"11": 0, "12": -3, "13": 1}', [(13, 13, 1.0)]),
        ('{"0-5": 4, "-7": 4}', [(0, 5, 4.0)]),
        ('{"11": 100}', [(11, 11, 100.0)]),
        ('{"1": "one", "3": "three", "4": "four"}', [(1, 1, 1.0), (3, 3, 3.0), (4, 4, 4.0)]),
        (f'{{"{"9" * 5000}": 5, "1-{"9" * 500}": 3}}', [(1, 10**9, 3.0)]),
    ],
)
def test_odd_numbers_have_a_meaning_or_none(text: str, expected: Triples) -> None:
    assert triples(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"frames": [11, "13-14"]}', [(11, 11, 1.0), (13, 14, 1.0)]),
        ('{"relevant frames": "11, 13-14"}', [(11, 11, 1.0), (13, 14, 1.0)]),
        ('{"11": null, "13-14": "very"}', [(11, 11, 1.0), (13, 14, 1.0)]),
        ("[3, 5]", [(3, 3, 1.0), (5, 5, 1.0)]),
        ('{"frames": [11, 13], "12": 4}', [(12, 12, 4.0)]),
    ],
)
def test_frames_without_a_rating_count_only_where_nothing_is_rated(
    text: str, expected: Triples
) -> None:
    assert triples(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "I cannot see any of the 256 frames.",
        "On a scale from 1 to 5: 3 frames show a cat",
        '{"00:11-00:12": 5, "00:33": 2}',
        "from 00:11 to 00:12: 5",
        '{"question": 5, "answer": 2}',
        '{"5": 0, "6": 0}',
        '{"score": 5}',
        '{"11-12": ',
    ],
)
def test_nothing_is_made_up(text: str) -> None:
    assert triples(text) == []


def test_a_range_beyond_the_frames_is_cut_and_the_best_rating_stands() -> None:
    ranges = [RatedRange(2, 4, 3.0), RatedRange(4, 9, 5.0), RatedRange(3, 5, 1.0)]
    ratings = frame_ratings([*ranges, RatedRange(0, 0, 5.0), RatedRange(7, 8, 5.0)], 6)
    np.testing.assert_array_equal(ratings, [np.nan, 3.0, 3.0, 5.0, 5.0, 5.0])


def test_no_frames_have_no_ratings() -> None:
    assert frame_ratings([RatedRange(1, 10**9, 5.0)], 0).tolist() == []


@st.composite
def written_ranges(draw: st.DrawFn) -> dict[tuple[int, int], int]:
    edges = sorted(draw(st.sets(st.integers(1, 256), min_size=2, max_size=24)))
    spans = zip(edges[::2], edges[1::2], strict=False)
    return {span: draw(st.integers(1, 5)) for span in spans}


def as_mapping(ranges: dict[tuple[int, int], int]) -> str:
    return json.dumps({f"{first}-{last}": rating for (first, last), rating in ranges.items()})


def as_records(ranges: dict[tuple[int, int], int]) -> str:
    records = [{"range": f"{a}-{b}", "score": rating} for (a, b), rating in ranges.items()]
    return json.dumps({"results": records}, indent=1)


def as_single_quotes(ranges: dict[tuple[int, int], int]) -> str:
    return str({f"{a} - {b}": str(rating) for (a, b), rating in ranges.items()})


def as_prose(ranges: dict[tuple[int, int], int]) -> str:
    return "\n".join(f"* Frames {b}–{a}: {rating}/5" for (a, b), rating in ranges.items())


WAYS = [as_mapping, as_records, as_single_quotes, as_prose]


@given(written_ranges(), st.sampled_from(WAYS), st.text("abc .!\n"), st.text("abc .!\n"))
def test_what_is_written_comes_back(
    ranges: dict[tuple[int, int], int],
    write: Callable[[dict[tuple[int, int], int]], str],
    before: str,
    after: str,
) -> None:
    text = f"{before}\n{write(ranges)}\n{after}"
    assert triples(text) == [(a, b, float(rating)) for (a, b), rating in ranges.items()]


@given(written_ranges(), st.sampled_from(WAYS[:2]), st.integers(0, 200))
def test_a_text_that_is_cut_off_keeps_what_is_complete(
    ranges: dict[tuple[int, int], int],
    write: Callable[[dict[tuple[int, int], int]], str],
    num_missing: int,
) -> None:
    text = write(ranges)
    kept = triples(text[: max(0, len(text) - num_missing)])
    whole = [(a, b, float(rating)) for (a, b), rating in ranges.items()]
    rated = [found for found in kept if found in whole]
    assert rated == whole[: len(rated)]
    # At most the place of the cut is misread, as a shorter number.
    assert len(kept) - len(rated) <= 1


ANYTHING = st.text() | st.text("[]{}()\"',:=\\\n 1259-–.ae") | st.sampled_from(MALFORMED_TEXTS)


@given(ANYTHING, st.integers(0, 300))
def test_no_text_raises_and_no_frame_is_out_of_range(text: str, num_frames: int) -> None:
    ranges = rated_ranges(text)
    assert all(0 <= found.first <= found.last for found in ranges)
    assert all(0 < found.rating < 10**6 for found in ranges)
    ratings = frame_ratings(ranges, num_frames)
    assert ratings.shape == (num_frames,)
    assert (np.isnan(ratings) | (ratings > 0)).all()


@pytest.mark.parametrize(
    "piece",
    [
        "[",
        '"',
        "'",
        "1",
        '\\"',
        '{"1":',
        "' ",
        "\n",
        "1,",
        "1-",
        '"1-256": 5,',
        ":",
        "[1",
        " ",
        "- [",
        "</think>",
        "[1-2]:3 ",
    ],
)
def test_a_hostile_text_of_a_megabyte_is_read_up_to_the_bound(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    ranges = rated_ranges(text)
    assert len(ranges) <= MOST_CHARACTERS // 2
    assert ranges == rated_ranges(text[:MOST_CHARACTERS].rpartition("</think>")[2])
    assert frame_ratings(ranges, 256).shape == (256,)
