from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samplers.contract import NotedSelection, ScorerUnavailableError, check_selection
from samplers.model_scores import (
    ALL_TAKEN_NOTE,
    UNRANKED_NOTE,
    ModelChoice,
    available,
    completed,
    model_choice,
    spread_rows,
    usable_answers,
    usable_text,
)
from samplers.testing import FailingScorer, make_video

NAN = np.nan


def float32(*values: float) -> np.typing.NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def published_nms(scores: list[float], count: int) -> list[int]:
    """Greedy suppression by positions, as the paper words it, one position at a time."""
    free = {row for row, score in enumerate(scores) if not np.isnan(score)}
    picks: list[int] = []
    while free and len(picks) < count:
        best = min(free, key=lambda row: (-scores[row], row))
        picks.append(best)
        free -= {row for row in free if abs(row - best) <= len(scores) / (4 * count)}
    return picks


def test_without_a_scorer_the_model_is_unavailable() -> None:
    scorer = FailingScorer()
    assert available(scorer) is scorer
    with pytest.raises(ScorerUnavailableError, match="no scoring model"):
        available(None)


def test_an_answer_that_is_no_number_is_missing() -> None:
    usable = usable_answers(float32(0.5, NAN, np.inf, -np.inf), 4)
    np.testing.assert_array_equal(usable, [0.5, NAN, NAN, NAN])
    assert usable.dtype == np.float64


@pytest.mark.parametrize("answers", [float32(), float32(NAN, np.inf)])
def test_no_answer_at_all_means_that_the_model_is_unavailable(
    answers: np.typing.NDArray[np.float32],
) -> None:
    with pytest.raises(ScorerUnavailableError, match="none of the questions"):
        usable_answers(answers, len(answers))


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        (None, "NoneType"),
        ("0.5", "str"),
        (b"0.5", "bytes"),
        ([0.5, 0.5], "list"),
        (np.array([1, 0]), "int64"),
        (np.array([True, False]), "bool"),
        (np.array(["0.5", "0.5"]), "U3"),
        (np.array([0.5, None]), "object"),
        (np.array([0.5 + 1j, 0.5]), "complex128"),
        (float32(0.5), r"shape \(1,\) to 2 questions"),
        (float32(0.5, 0.5, 0.5), r"shape \(3,\) to 2 questions"),
        (float32(), r"shape \(0,\) to 2 questions"),
        (np.float32(0.5), "float32"),
        (float32(0.5, 0.5)[:, np.newaxis], r"shape \(2, 1\)"),
    ],
)
def test_what_is_no_answer_to_each_question_means_that_the_model_is_unavailable(
    answers: object, problem: str
) -> None:
    with pytest.raises(ScorerUnavailableError, match=problem):
        usable_answers(answers, 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_answers_of_any_floating_precision_are_taken(dtype: type) -> None:
    usable = usable_answers(np.array([0.5, 0.25], dtype=dtype), 2)
    assert usable.tolist() == [0.5, 0.25]
    assert usable.dtype == np.float64


@pytest.mark.parametrize("answer", [None, b'{"1": 5}', {"1": 5}])
def test_ratings_that_are_no_text_mean_that_the_model_is_unavailable(answer: object) -> None:
    with pytest.raises(ScorerUnavailableError, match=type(answer).__name__):
        usable_text(answer)


def test_a_text_comes_back_as_it_is() -> None:
    assert usable_text('{"1": 5}') == '{"1": 5}'


def test_a_missing_answer_takes_the_place_of_its_cosine_among_the_answered() -> None:
    answers = np.array([0.9, NAN, 0.1, NAN, 0.5, NAN])
    cosines = float32(0.10, 0.40, 0.20, 0.05, 0.30, 0.25)
    # Answered by cosine: 0.1, 0.2, 0.3; their answers by rank: 0.1, 0.5, 0.9.
    filled = completed(answers, cosines)
    np.testing.assert_allclose(filled, [0.9, 0.9, 0.1, 0.1, 0.5, 0.7], rtol=1e-6)


def test_one_answer_stands_for_all() -> None:
    filled = completed(np.array([NAN, 0.4, NAN]), float32(0.3, 0.2, 0.1))
    np.testing.assert_array_equal(filled, [0.4, 0.4, 0.4])


def test_complete_answers_stay_as_they_are() -> None:
    answers = np.array([0.2, 0.9, 0.2])
    np.testing.assert_array_equal(completed(answers, float32(0.5, 0.1, 0.3)), answers)


def test_the_best_rows_go_by_value_then_cosine_then_the_earlier_row() -> None:
    cosines = float32(0.1, 0.0, 0.3, 0.1, 0.9, 0.8)
    choice = ModelChoice("q", np.array([0, 1, 2, 3, 5]), cosines, np.arange(6, dtype=np.float64))
    values = np.array([0.2, 0.9, 0.2, 0.2, NAN])
    best = [choice.best_rows(values, count).tolist() for count in range(1, 7)]
    assert best == [[1], [1, 2], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 5], [0, 1, 2, 3, 5]]


@pytest.mark.parametrize(("budget", "num_asked"), [(1, 2), (7, 64), (63, 64), (7, 300)])
def test_a_model_chooses_from_the_likeliest_that_keep_apart(budget: int, num_asked: int) -> None:
    video = make_video(90)
    choice = model_choice(video, "q", budget, "default", num_asked)
    assert isinstance(choice, ModelChoice)
    times_s, scores = video.timestamps_s[video.candidates], video.scores("default", "q")
    assert choice.rows.tolist() == spread_rows(scores, times_s, num_asked).tolist()
    assert len(choice.rows) == min(num_asked, 90) > budget


@pytest.mark.parametrize(
    ("budget", "query", "note"),
    [
        (0, "q", None),
        (90, "q", None),
        (900, "q", None),
        (7, None, UNRANKED_NOTE),
        (64, "q", ALL_TAKEN_NOTE),
        (89, "q", ALL_TAKEN_NOTE),
    ],
)
def test_without_a_choice_the_selection_itself_comes_back(
    budget: int, query: str | None, note: str | None
) -> None:
    video = make_video(90)
    chosen = model_choice(video, query, budget, "default", 64)
    assert isinstance(chosen, NotedSelection)
    assert chosen.note == note
    check_selection(chosen.indices, video, budget, fills_budget=True)


@given(
    st.lists(st.sampled_from([NAN, 0.0, 0.1, 0.2, 0.5, 0.9]), min_size=1, max_size=80),
    st.integers(0, 90),
)
def test_spread_rows_begin_as_the_published_rule_and_then_fill(
    scores: list[float], count: int
) -> None:
    times_s = 7.0 + 0.04 * np.arange(len(scores), dtype=np.float64)
    rows = spread_rows(np.array(scores), times_s, count).tolist()
    published = published_nms(scores, count)
    assert set(published) <= set(rows)
    assert rows == sorted(set(rows))
    scored = {row for row, score in enumerate(scores) if not np.isnan(score)}
    assert len(rows) == min(count, len(scored))
    left = sorted(scored - set(published), key=lambda row: (-scores[row], row))
    assert set(rows) == {*published, *left[: count - len(published)]}


def test_neighbours_are_counted_in_time_where_the_grid_is_uneven() -> None:
    # Eight rows, on average 10 s apart: two picks keep 15 s between them.
    times_s = np.array([0.0, 1.0, 14.0, 16.0, 40.0, 50.0, 60.0, 70.0])
    scores = np.array([1.0, 0.9, 0.8, 0.7, 0.1, 0.1, 0.1, 0.1])
    assert spread_rows(scores, times_s, 2).tolist() == [0, 3]


def test_rows_without_a_score_are_never_taken() -> None:
    scores = np.array([NAN, 0.1, NAN, 0.3, NAN])
    times_s = np.arange(5, dtype=np.float64)
    assert spread_rows(scores, times_s, 4).tolist() == [1, 3]
    assert spread_rows(np.array([NAN]), np.zeros(1), 1).tolist() == []
    assert spread_rows(np.array([]), np.array([]), 3).tolist() == []
