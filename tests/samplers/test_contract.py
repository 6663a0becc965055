from __future__ import annotations

import numpy as np
import pytest

from samplers.contract import ContractViolationError, check_selection
from samplers.testing import make_video

VIDEO = make_video(6, seed=2)
CANDIDATES: list[int] = VIDEO.candidates.tolist()
NOT_A_CANDIDATE = next(i for i in range(VIDEO.num_frames) if i not in CANDIDATES)


def test_a_valid_selection_is_returned_as_it_is() -> None:
    indices = CANDIDATES[1:4]
    assert check_selection(indices, VIDEO, 3, fills_budget=True) is indices


@pytest.mark.parametrize(
    ("indices", "rule"),
    [
        ([5, 5, 2], "strictly increasing"),
        ([CANDIDATES[1], CANDIDATES[1], CANDIDATES[2]], "strictly increasing"),
        ([CANDIDATES[2], CANDIDATES[1], CANDIDATES[3]], "strictly increasing"),
        ([float(i) for i in CANDIDATES[:3]], "Python ints"),
        (list(VIDEO.candidates[:3]), "Python ints"),
        (VIDEO.candidates[:3], "Python ints"),
        (tuple(CANDIDATES[:3]), "Python ints"),
        ([False, True, *CANDIDATES[2:3]], "Python ints"),
        (None, "Python ints"),
        (CANDIDATES[:2], "expected 3 frames, got 2"),
        (CANDIDATES[:4], "expected 3 frames, got 4"),
        ([], "expected 3 frames, got 0"),
        (sorted([*CANDIDATES[:2], NOT_A_CANDIDATE]), "member of video.candidates"),
        ([-1, *CANDIDATES[:2]], "member of video.candidates"),
        ([*CANDIDATES[:2], VIDEO.num_frames], "member of video.candidates"),
        ([*CANDIDATES[:2], 2**80], "member of video.candidates"),
    ],
)
def test_a_broken_selection_is_refused_with_the_rule(indices: object, rule: str) -> None:
    with pytest.raises(ContractViolationError, match=rule):
        check_selection(indices, VIDEO, 3, fills_budget=True)


def test_a_sampler_that_does_not_fill_may_return_fewer_but_not_none() -> None:
    assert check_selection(CANDIDATES[:1], VIDEO, 3, fills_budget=False) == CANDIDATES[:1]
    with pytest.raises(ContractViolationError, match="expected 1 to 3 frames, got 0"):
        check_selection([], VIDEO, 3, fills_budget=False)


@pytest.mark.parametrize("fills_budget", [True, False])
def test_no_budget_is_no_frames(fills_budget: bool) -> None:
    assert check_selection([], VIDEO, 0, fills_budget=fills_budget) == []


def test_a_budget_above_the_candidates_is_all_of_them() -> None:
    assert check_selection(CANDIDATES, VIDEO, 10**9, fills_budget=True) == CANDIDATES


def test_a_numpy_int_inside_a_list_is_refused() -> None:
    with pytest.raises(ContractViolationError, match="Python ints"):
        check_selection([np.int64(CANDIDATES[0])], VIDEO, 1, fills_budget=True)
