from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.budget import Budget, BudgetLimit, BudgetRule, BudgetTerms, frame_budget
from app.errors import QuestionTooLongError

RULE = BudgetRule(min_frames=4, max_frames=16, target_fps=0.5)


def terms(
    *,
    seconds: float = 20.0,
    candidates: int = 100,
    free: int = 10_000,
    per_frame: float = 10.0,
    requested: int | None = None,
) -> BudgetTerms:
    return BudgetTerms(seconds, candidates, free, per_frame, requested)


@pytest.mark.parametrize(
    ("given_terms", "expected"),
    [
        (terms(seconds=20.0), Budget(10, BudgetLimit.VIDEO_SECONDS)),
        (terms(seconds=1.0), Budget(4, BudgetLimit.MIN_FRAMES)),
        (terms(seconds=3600.0), Budget(16, BudgetLimit.MAX_FRAMES)),
        (terms(seconds=20.0, free=75), Budget(7, BudgetLimit.CONTEXT_TOKENS)),
        (terms(seconds=20.0, candidates=3), Budget(3, BudgetLimit.CANDIDATES)),
        (terms(seconds=20.0, requested=2), Budget(2, BudgetLimit.REQUEST)),
        (terms(seconds=20.0, requested=50), Budget(10, BudgetLimit.VIDEO_SECONDS)),
    ],
)
def test_the_answer_says_which_term_won(given_terms: BudgetTerms, expected: Budget) -> None:
    assert frame_budget(RULE, given_terms) == expected


def test_a_question_that_leaves_no_room_for_one_frame_is_refused() -> None:
    with pytest.raises(QuestionTooLongError):
        frame_budget(RULE, terms(free=9, per_frame=10.0))


@given(
    st.floats(0, 1e5),
    st.integers(1, 10_000),
    st.integers(10, 100_000),
    st.one_of(st.none(), st.integers(1, 1000)),
)
def test_a_request_may_only_lower_the_budget(
    seconds: float, candidates: int, free: int, requested: int | None
) -> None:
    asked = terms(seconds=seconds, candidates=candidates, free=free, requested=requested)
    plain = terms(seconds=seconds, candidates=candidates, free=free)
    assert 1 <= frame_budget(RULE, asked).frames <= frame_budget(RULE, plain).frames


def test_the_budget_grows_with_the_video_until_the_cap() -> None:
    budgets = [frame_budget(RULE, terms(seconds=float(s))).frames for s in range(0, 60, 2)]
    assert budgets == sorted(budgets)
    grown = [b for b in budgets if RULE.min_frames < b < RULE.max_frames]
    assert len(set(grown)) == len(grown) > 5
