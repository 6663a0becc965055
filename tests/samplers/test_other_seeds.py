"""AKS, BOLT and FOCUS on seeds, lengths and budgets beyond the golden files.

Each is written a second time, plainly, in a `naive_` file beside this one. That it reproduces every
golden case shows that the plain version is the published program; then it is the oracle for others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers import aks, bolt
from samplers.contract import TimeArray
from samplers.focus_upstream import UpstreamSettings, driver_min_gap_s, upstream_rows
from samplers.score_oracle import Answers, CachedOracle
from tests.samplers.golden_cases import (
    HERE,
    GoldenCase,
    case_name,
    case_scores,
    generated_scores,
    golden_cases,
)
from tests.samplers.naive_aks import naive_aks
from tests.samplers.naive_bolt import naive_bolt
from tests.samplers.naive_focus import NaiveFocus

GENERATORS = ("unif", "spiky", "cos")
OTHER_SEEDS = (2, 3, 4, 17)

kinds = st.sampled_from(GENERATORS)
seeds = st.integers(2, 2**16)
lengths = st.integers(1, 300)
budgets = st.integers(1, 90)


def unit_scores(scores: TimeArray) -> TimeArray:
    spread = scores.max() - scores.min()
    return (scores - scores.min()) / spread if spread > 0 else scores * 0.0


def naive_aks_of(case: GoldenCase) -> list[int]:
    given_by = case.get("params", case)
    thresholds = (given_by["t1"], given_by["t2"], given_by["all_depth"])
    return naive_aks(case_scores(case).tolist(), case["budget"], *thresholds)


def naive_bolt_of(case: GoldenCase) -> list[int]:
    return naive_bolt(case_scores(case).tolist(), case["budget"], case["power"])


def naive_focus(case: GoldenCase) -> NaiveFocus:
    scores = case_scores(case)
    scores = scores if "scores" in case else unit_scores(scores)
    parameters = dict(case.get("params", {}))
    if "coarse_every_sec" in parameters:
        parameters["coarse_every_s"] = parameters.pop("coarse_every_sec")
    is_linear = parameters.pop("interpolation_method", "nearest") == "linear"
    rng = np.random.default_rng(case["rng_seed"])
    return NaiveFocus(scores.tolist(), rng, is_linear=is_linear, **parameters)


def naive_focus_of(case: GoldenCase) -> list[int]:
    return naive_focus(case).rows(case["budget"])


def focus(scores: TimeArray, budget: int, seed: int, **settings: Any) -> list[int]:
    answers = Answers(CachedOracle(scores), len(scores), len(scores))
    gap_s = driver_min_gap_s(len(scores), budget)
    given_by = UpstreamSettings(min_gap_s=gap_s, **settings)
    return upstream_rows(answers, budget, np.random.default_rng(seed), given_by)


NAIVE = {"aks": naive_aks_of, "bolt": naive_bolt_of, "focus": naive_focus_of}
GOLDEN = [
    pytest.param(sampler_id, case, id=f"{sampler_id}-{case_name(case)}")
    for sampler_id in NAIVE
    for case in golden_cases(HERE / f"{sampler_id}.json")
]


@pytest.mark.parametrize(("sampler_id", "case"), GOLDEN)
def test_the_plain_version_equals_the_authors_output(sampler_id: str, case: GoldenCase) -> None:
    assert NAIVE[sampler_id](case) == case["expected"]


@pytest.mark.parametrize("sampler_id", NAIVE)
def test_the_plain_version_equals_the_authors_output_on_the_full_set(
    sampler_id: str, shared_dir: Path
) -> None:
    cases = golden_cases(shared_dir / "golden" / f"{sampler_id}.json")
    assert [NAIVE[sampler_id](case) for case in cases] == [case["expected"] for case in cases]


@pytest.mark.parametrize(
    "case", [c for c in golden_cases(HERE / "focus.json") if "arms" in c], ids=case_name
)
def test_the_arms_and_their_bounds_equal_the_authors(case: GoldenCase) -> None:
    naive = naive_focus(case)
    naive.rows(case["budget"])
    for arm, (start, end, bound, _, num_samples) in enumerate(case["arms"]):
        assert (naive.arms[arm][0], naive.arms[arm][-1]) == (start, end)
        assert naive.upper_bound(arm) == pytest.approx(bound, abs=1e-6)
        assert len(naive.samples[arm]) == num_samples
    assert [row for samples in naive.samples for row in samples] == case["coarse"]
    assert sorted(naive.scored - set(case["coarse"])) == sorted(case["fine"])


@pytest.mark.parametrize("budget", [8, 32, 64])
@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("seed", OTHER_SEEDS)
def test_an_hour_of_another_seed_gives_the_same_rows(kind: str, seed: int, budget: int) -> None:
    scores = generated_scores(kind, seed, 3600)
    plain = scores.tolist()
    for all_depth in (3, 5):
        expected = naive_aks(plain, budget, 0.8, -100, all_depth)
        assert aks.upstream_rows(scores, budget, all_depth=all_depth) == expected
    for power in (-1, 2.5, 3):
        assert bolt.upstream_rows(scores, budget, power) == naive_bolt(plain, budget, power)
    unit = unit_scores(scores)
    naive = NaiveFocus(unit.tolist(), np.random.default_rng(seed))
    assert focus(unit, budget, seed) == naive.rows(budget)


@settings(max_examples=100, deadline=None)
@given(
    kinds,
    seeds,
    lengths,
    budgets,
    st.sampled_from([(0.05, -100.0), (0.2, 0.1), (0.5, 0.3), (0.8, -100.0)]),
    st.integers(0, 7),
)
def test_aks_equals_its_plain_version_at_any_length_and_budget(
    kind: str, seed: int, length: int, budget: int, thresholds: tuple[float, float], all_depth: int
) -> None:
    scores = generated_scores(kind, seed, length)
    expected = naive_aks(scores.tolist(), budget, *thresholds, all_depth)
    assert aks.upstream_rows(scores, budget, *thresholds, all_depth) == expected


@settings(max_examples=100, deadline=None)
@given(kinds, seeds, lengths, budgets, st.sampled_from([-1.0, 0.5, 2.5, 3.0, 9.0]))
def test_bolt_equals_its_plain_version_at_any_length_and_budget(
    kind: str, seed: int, length: int, budget: int, power: float
) -> None:
    scores = generated_scores(kind, seed, length)
    assert bolt.upstream_rows(scores, budget, power) == naive_bolt(scores.tolist(), budget, power)


@settings(max_examples=100, deadline=None)
@given(
    kinds,
    seeds,
    lengths,
    budgets,
    st.fixed_dictionaries(
        {
            "min_coarse_segments": st.integers(1, 12),
            "coarse_every_s": st.sampled_from([2.0, 7.5, 16.0, 60.0]),
            "min_zoom_segments": st.integers(1, 6),
            "final_min_arms": st.integers(1, 6),
        }
    ),
)
def test_focus_equals_its_plain_version_at_any_length_and_budget(
    kind: str, seed: int, length: int, budget: int, parameters: dict[str, Any]
) -> None:
    scores = unit_scores(generated_scores(kind, seed, length))
    naive = NaiveFocus(scores.tolist(), np.random.default_rng(seed), **parameters)
    assert focus(scores, budget, seed, **parameters) == naive.rows(budget)
