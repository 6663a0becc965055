"""When two answers are compared exactly, and when their meaning is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.agreement import exact_agreement, has_options, normalised

CHOICE = "What colour is the car? A) red B) blue C) green"


@pytest.mark.parametrize(
    "question",
    [
        CHOICE,
        "Which one?\n(A) a cat\n(B) a dog",
        "Pick one. A. left B. right",
        "A: yes\nB: no\nWhich is it?",
    ],
)
def test_lettered_options_make_a_choice(question: str) -> None:
    assert has_options(question)


@pytest.mark.parametrize(
    "question",
    [
        "What happens at 3 p.m.?",
        "Who is in scene B) of the film?",
        "Does vitamin A) help?",
        "B) red C) blue",
        "",
    ],
)
def test_other_questions_are_none(question: str) -> None:
    assert not has_options(question)


@pytest.mark.parametrize(
    ("first", "second", "agreement"),
    [
        ("B", "b)", 1.0),
        ("B) blue", "The answer is B.", 1.0),
        ("(A) red", "Answer: A", 1.0),
        ("B", "C", 0.0),
        ("blue.", " Blue", 1.0),
        ("a blue car", "A", 0.0),
    ],
)
def test_a_choice_is_compared_by_its_letter(first: str, second: str, agreement: float) -> None:
    assert exact_agreement(CHOICE, first, second) == agreement


@pytest.mark.parametrize(
    ("question", "first", "second", "agreement"),
    [
        ("Is there a dog?", "Yes, a brown one.", "yes", 1.0),
        ("Does it rain?", "No.", "Yes, it does", 0.0),
        ("Is there a dog?", "A brown dog runs.", "Yes", None),
        ("Is it a dog or a cat?", "Yes", "Yes", None),
        ("What is there?", "Yes", "No", None),
        ("Island life, what of it?", "Yes", "No", None),
    ],
)
def test_yes_and_no_are_compared_where_they_were_asked_for(
    question: str, first: str, second: str, agreement: float | None
) -> None:
    assert exact_agreement(question, first, second) == agreement


@given(st.text(), st.text(), st.text())
def test_agreement_is_symmetric_and_whole_with_itself(
    question: str, first: str, second: str
) -> None:
    assert exact_agreement(question, first, second) == exact_agreement(question, second, first)
    assert exact_agreement(question, first, first) in {1.0, None}


@given(st.text(st.characters(max_codepoint=0x17F)))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)
