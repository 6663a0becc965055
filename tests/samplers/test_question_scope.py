from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from samplers.contract import TimeArray
from samplers.question_scope import (
    MOST_READ_CHARS,
    Reading,
    Scope,
    scope_of_scores,
    scope_of_words,
    score_shape,
)

QUESTIONS = Path(__file__).parent / "questions.tsv"
"""set, what a person would say, question. `held-out` was written before the rules, `later` after;
`left` is left to the scores, `misread` is known to be read wrongly."""
SETS = ("written", "held-out", "later", "left", "misread")
SCOPES: dict[str, Scope | None] = {
    "whole": "whole video",
    "moment": "one moment",
    "several": "several moments",
    "undecided": None,
}


def questions(name: str) -> list[tuple[Scope | None, str]]:
    lines = [line.split("\t") for line in QUESTIONS.read_text().splitlines()[1:]]
    return [(SCOPES[expected], question) for kind, expected, question in lines if kind == name]


def read_scope(question: str) -> Scope | None:
    reading = scope_of_words(question)
    return None if reading is None else reading.scope


def hour() -> TimeArray:
    times_s: TimeArray = np.arange(3600, dtype=np.float64)
    return times_s


def noise(seed: int, num_rows: int = 3600) -> TimeArray:
    scores: TimeArray = 0.2 + 0.02 * np.random.default_rng(seed).standard_normal(num_rows)
    return scores


def with_moments(*starts: int, num_rows: int = 3600) -> TimeArray:
    scores = noise(1, num_rows)
    for start in starts:
        scores[start : start + 6] += 0.2
    return scores


def read_scores(scores: TimeArray) -> Reading:
    return scope_of_scores(scores.astype(np.float32), hour()[: len(scores)])


@pytest.mark.parametrize(("expected", "question"), questions("written"))
def test_a_question_is_read_as_a_person_reads_it(expected: Scope | None, question: str) -> None:
    assert read_scope(question) == expected


@pytest.mark.parametrize(("expected", "question"), questions("left"))
def test_a_question_without_a_plain_sign_is_left_to_the_scores(
    expected: Scope | None, question: str
) -> None:
    assert expected is not None
    assert read_scope(question) is None


@pytest.mark.parametrize(("expected", "question"), questions("misread"))
def test_the_questions_known_to_be_misread_still_are(expected: Scope | None, question: str) -> None:
    # One that is read correctly by now belongs to the set `written`, and out of docs/samplers.md.
    assert read_scope(question) not in {expected, None}


@pytest.mark.parametrize(
    ("name", "least_right", "most_wrong"), [("held-out", 45, 0), ("later", 8, 0)]
)
def test_questions_that_the_rules_were_not_made_for_are_rarely_misread(
    name: str, least_right: int, most_wrong: int
) -> None:
    read = [(read_scope(question), expected) for expected, question in questions(name)]
    assert sum(scope == expected for scope, expected in read) >= least_right
    assert sum(scope not in {expected, None} for scope, expected in read) <= most_wrong


def test_the_corpus_holds_every_scope_and_no_question_twice() -> None:
    everything = [pair for name in SETS for pair in questions(name)]
    assert len({question for _, question in everything}) == len(everything) >= 60
    counts = Counter(scope for scope, _ in everything)
    assert min(counts.values()) >= 15
    assert len(counts) == 4


def test_the_reason_quotes_the_question() -> None:
    assert scope_of_words("  When DOES the dog jump?") == Reading("one moment", '"when does"')
    assert scope_of_words("In this video, who wins overall?") == Reading("whole video", '"overall"')


@pytest.mark.parametrize(
    ("question", "time"),
    [
        ("What happens at 0:05?", "at 0:05"),
        ("And at 1:02:15, where is she?", "at 1:02:15"),
        ("What is shown between 0:30 and 1:10?", "0:30"),
        ("At around 3 minutes, what does he point at?", "around 3 minutes"),
        ("What is in minute 5?", "minute 5"),
    ],
)
def test_a_time_is_quoted_whole_and_the_reason_says_that_it_is_not_sought(
    question: str, time: str
) -> None:
    expected = Reading("one moment", f'"{time}", a time, which no sampler seeks')
    assert scope_of_words(question) == expected


def test_what_a_question_quotes_is_not_read() -> None:
    assert read_scope("Does she sing “before you go” or «summary»?") is None


def test_an_endless_question_is_read_up_to_a_limit() -> None:
    assert read_scope("how does " * 100_000 + "change") is None
    assert read_scope("x " * MOST_READ_CHARS + "summary") is None


@pytest.mark.parametrize("question", ["", " ", "?", "\n\t", '"', "\x00", "İ" * 50])
def test_a_question_without_words_is_undecided(question: str) -> None:
    assert read_scope(question) is None


def test_scores_with_one_peak_are_about_one_moment() -> None:
    assert read_scores(with_moments(500)) == Reading("one moment", "scores with one peak")


def test_scores_with_peaks_apart_are_about_several_moments() -> None:
    expected = Reading("several moments", "scores with 3 peaks")
    assert read_scores(with_moments(500, 1700, 3000)) == expected


def test_peaks_close_together_are_one() -> None:
    assert read_scores(with_moments(500, 520)).scope == "one moment"


@pytest.mark.parametrize("seed", range(8))
def test_noise_has_no_peak(seed: int) -> None:
    assert read_scores(noise(seed)) == Reading("several moments", "no score stands out")


def test_a_score_that_is_flat_but_for_one_row_has_one_peak() -> None:
    scores = np.full(40, 0.25)
    scores[7] = 0.9
    assert read_scores(scores).scope == "one moment"


def test_half_of_the_video_is_no_peak() -> None:
    scores = noise(2)
    scores[:2000] += 0.2
    assert read_scores(scores).reason == "no score stands out"


def test_the_shape_does_not_depend_on_the_scale_of_the_scores() -> None:
    scores = with_moments(500, 1700).astype(np.float32)
    first = score_shape(scores, hour())
    second = score_shape((scores - 0.5) * np.float32(0.125), hour())
    assert first.num_peaks == second.num_peaks == 2
    assert first.height == pytest.approx(second.height, rel=1e-4)


@pytest.mark.parametrize("scores", [[0.0, 1.0], [1.0, 0.0, 0.0], [-1.0, 1.0, -1.0, 1.0]])
def test_a_handful_of_scores_has_a_shape(scores: list[float]) -> None:
    shape = score_shape(np.array(scores, dtype=np.float32), hour()[: len(scores)])
    assert shape.num_peaks >= 1
    assert 0 < shape.height <= 1000
