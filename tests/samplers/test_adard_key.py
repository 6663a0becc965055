from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.adard_key import (
    AdardKeySampler,
    VbScale,
    adard_rows,
    peak_height,
    vb_scale_lambda,
)
from samplers.contract import InvalidOptionsError, TimeArray, check_selection
from samplers.selection import RealArray, min_max_scaled
from samplers.testing import InMemoryVideo, make_video
from tests.samplers.golden_cases import (
    HERE,
    GoldenCase,
    case_name,
    case_pictures,
    case_scores,
    golden_cases,
)


def adard_cases(file: Path) -> list[GoldenCase]:
    """Every case of the file, whose generated ones are all of one kind."""
    return [{"gen": "cos"} | case for case in golden_cases(file)]


CASES = adard_cases(HERE / "adard_key.json")


def relevance_of(case: GoldenCase) -> TimeArray:
    if "seed" not in case:
        return np.array(case["relevance"])
    scaled = min_max_scaled(case_scores(case))
    if case["impl"] == "A":
        sigmoid: TimeArray = 1 / (1 + np.exp(-8 * (scaled - 0.5)))
        return sigmoid
    return scaled * float(case["relevance"].partition("*")[2])


def picks_of(case: GoldenCase, pictures: RealArray) -> list[int]:
    """With the first pick given where rounding noise decided it in the run that was recorded."""
    relevance = relevance_of(case)
    is_open = relevance.max() >= case["gate"]
    first = int(np.argmax(relevance)) if case["impl"] == "A" else None
    return adard_rows(
        relevance if is_open else np.zeros(len(relevance)),
        pictures,
        case["budget"],
        weight=case["lam"],
        eps=case["eps"],
        first=first if is_open else case["expected_pick_order"][0],
    )


def assert_reproduced(case: GoldenCase) -> None:
    picks = picks_of(case, case_pictures(case))
    if case["budget"] == 64:
        # As many picks as dimensions: the last ones are decided by what is left of rounding.
        assert len(set(picks) & set(case["expected"])) >= 60
        return
    assert sorted(picks) == case["expected"]
    assert picks == case.get("expected_pick_order", picks)


def sampler(**options: Any) -> AdardKeySampler:
    return AdardKeySampler(replace(AdardKeySampler.Options(), **options), encoder="default")


def video_of(embeddings: TimeArray, scores: TimeArray | None = None) -> InMemoryVideo:
    count = len(embeddings)
    return InMemoryVideo(
        video_id="given",
        timestamps_s=np.arange(3 * count) / 10,
        candidates=np.arange(1, 3 * count, 3),
        embeddings=embeddings.astype(np.float32),
        fixed_scores=None if scores is None else scores.astype(np.float32),
    )


def spike(num_rows: int, row: int) -> TimeArray:
    scores = np.random.default_rng(0).normal(0.2, 0.01, num_rows)
    scores[row] = 0.4
    return scores


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['impl']}-{case_name(case)}")
def test_two_independent_implementations_chose_the_same_rows(case: GoldenCase) -> None:
    assert_reproduced(case)


def test_two_independent_implementations_chose_the_same_rows_on_the_full_set(
    shared_dir: Path,
) -> None:
    cases = adard_cases(shared_dir / "golden" / "adard_key.json")
    assert len(cases) == 24
    for case in cases:
        assert_reproduced(case)


@pytest.mark.parametrize("case", [c for c in CASES if c["impl"] == "B"], ids=case_name)
def test_vb_scale_gives_the_recorded_lambda(case: GoldenCase) -> None:
    weight = vb_scale_lambda(relevance_of(case), case["budget"], VbScale())
    assert weight == pytest.approx(case["lam"], abs=1e-8)


@pytest.mark.parametrize("case", [c for c in CASES if "seed" in c], ids=case_name)
def test_single_precision_embeddings_choose_the_same_rows(case: GoldenCase) -> None:
    pictures = case_pictures(case)
    assert picks_of(case, pictures.astype(np.float32)) == picks_of(case, pictures)


@settings(max_examples=100, deadline=None)
@given(
    relevance=st.lists(st.floats(0, 1), min_size=1, max_size=50),
    share=st.floats(0, 1),
    alpha=st.floats(0, 100),
)
def test_lambda_stays_within_its_bounds(relevance: list[float], share: float, alpha: float) -> None:
    count = max(1, round(share * len(relevance)))
    weight = vb_scale_lambda(np.array(relevance), count, VbScale(0.05, 0.6, alpha))
    assert 0.05 <= weight <= 0.6


def test_with_eight_candidates_a_frame_lambda_is_at_its_most() -> None:
    relevance = np.random.default_rng(1).random(512)
    assert vb_scale_lambda(relevance, 8, VbScale()) == pytest.approx(0.6)
    assert vb_scale_lambda(relevance, 500, VbScale()) < 0.6


def test_the_peak_of_a_spike_is_high_and_of_noise_is_not() -> None:
    noise = np.random.default_rng(2).normal(size=3600)
    assert 0.7 < peak_height(noise) < 1.2
    assert peak_height(spike(3600, 7)) > 4
    assert peak_height(np.array([0.0, 0.0, 0.0, 1.0])) == float("inf")


def test_a_relevant_frame_is_chosen_when_the_gate_is_open() -> None:
    video = make_video(200, seed=2, dimension=32)
    assert video.embeddings is not None
    scored = replace(video, fixed_scores=spike(200, 77).astype(np.float32))
    selection = sampler().select_with_note(scored, "q", 4, None)
    assert int(video.candidates[77]) in selection.indices
    assert selection.note == "gate open: relevance + 0.1 * diversity"


def test_the_gate_opens_when_the_threshold_is_reached() -> None:
    video = make_video(60, seed=2)
    scored = replace(video, fixed_scores=spike(60, 7).astype(np.float32))
    best = float(scored.scores("default", "q").max())
    for tau, word in ((best, "open"), (best + 1e-6, "closed")):
        note = sampler(gate="score", tau=tau).select_with_note(scored, "q", 4, None).note
        assert note is not None
        assert note.startswith(f"gate {word}")


def test_a_closed_gate_drops_relevance() -> None:
    video = make_video(200, seed=2, dimension=32)
    closed = sampler(gate="score", tau=2.0).select_with_note(video, "q", 8, None)
    assert closed.note == "gate closed, no frame stands out: diversity"
    best = int(np.argmax(video.scores("default", "q")))
    assert video.embeddings is not None
    alone = adard_rows(np.zeros(200), video.embeddings, 8, weight=1.0, eps=0.01, first=best)
    assert closed.indices == sorted(video.candidates[alone].tolist())


def test_the_first_frame_of_a_closed_gate_may_be_the_middle_one() -> None:
    video = make_video(201, seed=2)
    middle = sampler(gate="score", tau=2.0, closed_first="middle")
    assert middle.select(video, "q", 1, None) == [int(video.candidates[100])]
    best = int(np.argmax(video.scores("default", "q")))
    relevant = sampler(gate="score", tau=2.0)
    assert relevant.select(video, "q", 1, None) == [int(video.candidates[best])]


@pytest.mark.parametrize("kind", ["constant", "nan", "no query"])
def test_the_fallback_is_diversity_alone_from_the_middle(kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    selection = sampler().select_with_note(video, None if kind == "no query" else "q", 7, None)
    assert video.embeddings is not None
    rows = adard_rows(np.zeros(90), video.embeddings, 7, weight=1.0, eps=0.01, first=45)
    assert selection.indices == sorted(video.candidates[rows].tolist())
    assert selection.note == "no usable scores: diversity"


def test_a_fixed_lambda_of_zero_chooses_the_most_relevant_frames() -> None:
    video = make_video(120, seed=6)
    scores = video.scores("default", "q")
    best = np.sort(np.argsort(-scores, kind="stable")[:9])
    relevance_only = sampler(lambda_rule="fixed", lambda_fixed=0.0, gate="off")
    assert relevance_only.select(video, "q", 9, None) == video.candidates[best].tolist()


def test_frames_of_different_looks_are_chosen_before_repeats() -> None:
    looks = np.repeat(np.eye(4), 25, axis=0)
    video = video_of(looks)
    chosen = sampler().select(video, None, 4, None)
    assert [int(np.argmax(looks[(index - 1) // 3])) for index in chosen] == [0, 1, 2, 3]


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_bad_embedding_rows_break_nothing(bad: float) -> None:
    embeddings = np.random.default_rng(4).standard_normal((60, 8))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    embeddings[10:20] = bad
    for budget in (1, 5, 55):
        video = video_of(embeddings, spike(60, 33))
        check_selection(
            sampler().select(video, "q", budget, None), video, budget, fills_budget=True
        )
        check_selection(
            sampler().select(video, None, budget, None), video, budget, fills_budget=True
        )


def test_a_large_budget_is_bounded_work() -> None:
    video = make_video(2000, dimension=8)
    selected = sampler().select(video, "q", 1900, None)
    check_selection(selected, video, 1900, fills_budget=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("eps", 0.0), ("lambda_max", 101.0), ("lambda_min", 0.7), ("alpha", -1.0), ("tau", np.nan)],
)
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidOptionsError, match=name):
        sampler(**{name: value})
