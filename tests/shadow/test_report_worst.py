"""shadow/report_worst.py."""

from __future__ import annotations

from dataclasses import replace

from shadow.report_worst import worst_disagreements
from tests.shadow.report_records import comparison, failed_side, side

CONTROL = side("uniform", [0, 100, 200])


def test_least_overlap_comes_first_and_then_the_largest_distance() -> None:
    records = [
        comparison(1, CONTROL, side("aks", [0, 100, 250])),
        comparison(2, CONTROL, side("aks", [30, 130, 230])),
        comparison(3, CONTROL, side("aks", [50, 150, 290])),
    ]
    worst = worst_disagreements(records, 5)
    assert [found.answer_id for found in worst] == ["answer-00003", "answer-00002", "answer-00001"]
    assert [frame.is_shared for frame in worst[2].shadow.frames] == [True, True, False]
    assert [frame.seconds for frame in worst[2].shadow.frames] == [0.0, 10.0, 25.0]


def test_the_same_choice_and_a_failure_are_no_disagreements() -> None:
    records = [
        comparison(1, CONTROL, side("aks", [0, 100, 200])),
        comparison(2, CONTROL, failed_side("aks", "raised")),
    ]
    assert worst_disagreements(records, 5) == []


def test_a_question_that_was_asked_again_stands_once() -> None:
    again = [
        replace(comparison(n, CONTROL, side("aks", [50])), question="What now?") for n in range(4)
    ]
    other = comparison(9, CONTROL, side("aks", [0, 120]))
    worst = worst_disagreements([*again, other], 5)
    assert [(found.question, found.num_alike) for found in worst] == [
        ("What now?", 3),
        ("What happens at number 9?", 0),
    ]


def test_no_more_are_given_than_asked_for() -> None:
    records = [comparison(n, CONTROL, side("aks", [50 + n])) for n in range(4)]
    assert len(worst_disagreements(records, 2)) == 2
