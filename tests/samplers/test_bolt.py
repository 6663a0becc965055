from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samplers.bolt import BoltSampler, safe_rows, upstream_rows
from samplers.contract import IndexArray, InvalidOptionsError, TimeArray, check_selection
from samplers.testing import make_video
from samplers.uniform import UniformSampler
from tests.samplers.golden_cases import HERE, GoldenCase, case_name, case_scores, golden_cases

CASES = golden_cases(HERE / "bolt.json")


def upstream_float32(case: GoldenCase) -> list[int]:
    return upstream_rows(case_scores(case).astype(np.float32), case["budget"], case["power"])


def sampler(**options: Any) -> BoltSampler:
    return BoltSampler(replace(BoltSampler.Options(), **options), encoder="default")


def spread(
    scores: TimeArray, budget: int, power: float = 3.0, shot_starts: IndexArray | None = None
) -> list[int]:
    return [int(row) for row in safe_rows(scores, budget, power, shot_starts)]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_upstream_rows_equal_the_authors_output(case: GoldenCase) -> None:
    assert upstream_rows(case_scores(case), case["budget"], case["power"]) == case["expected"]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_upstream_rows_equal_the_authors_output_in_float32(case: GoldenCase) -> None:
    assert upstream_float32(case) == case.get("expected_float32", case["expected"])


def test_upstream_rows_equal_the_authors_output_on_the_full_set(shared_dir: Path) -> None:
    cases = golden_cases(shared_dir / "golden" / "bolt.json")
    assert len(cases) == 64
    for case in cases:
        scores = case_scores(case)
        assert upstream_rows(scores, case["budget"], case["power"]) == case["expected"]
        assert upstream_float32(case) == case.get("expected_float32", case["expected"])


@pytest.mark.parametrize("kind", ["unif", "spiky"])
@pytest.mark.parametrize("budget", [1, 2, 3, 8, 64, 200])
def test_safe_rows_never_repeat(kind: str, budget: int) -> None:
    rng = np.random.default_rng(6)
    scores = rng.random(300) if kind == "unif" else rng.random(300) ** 40
    rows = spread(scores, budget)
    assert rows == sorted(set(rows))
    assert len(set(upstream_rows(scores, budget))) <= len(rows) <= budget
    assert rows[-1] < 300


def test_safe_rows_equal_upstream_where_upstream_repeats_nothing() -> None:
    scores = np.random.default_rng(7).random(3600)
    rows = upstream_rows(scores, 32)
    assert len(set(rows)) == 32
    assert spread(scores, 32) == rows


def test_safe_rows_keep_every_row_of_upstream() -> None:
    scores = np.random.default_rng(8).random(400) ** 20
    assert set(upstream_rows(scores, 32)) <= set(spread(scores, 32))


def test_a_repeated_quantile_moves_to_the_nearest_row_inside_the_mass() -> None:
    scores = np.array([0.0, 0.0, 0.0, 0.1, 1.0, 0.2, 0.0, 0.0])
    assert upstream_rows(scores, 3, 1.0) == [4, 4, 4]
    assert spread(scores, 3, 1.0) == [3, 4, 5]


def test_rows_without_any_density_are_left_to_the_coverage_fill() -> None:
    scores = np.zeros(90, dtype=np.float64)
    scores[45] = 1.0
    assert spread(scores, 4) == [45]


def test_one_frame_is_the_most_relevant_one() -> None:
    scores = np.random.default_rng(9).random(50)
    assert spread(scores, 1) == [int(np.argmax(scores))]


def test_two_frames_are_the_quartiles_of_the_density() -> None:
    assert spread(np.array([0.0, *[1.0] * 100]), 2, -1) == [25, 75]


def test_scene_hints_spread_repeats_over_the_shots_between_two_picks() -> None:
    scores = np.full(40, 0.05)
    scores[[0, 20]] = [0.0, 1.0]
    scores[[5, 35]] = [0.2, 0.15]
    starts = np.array([0, 10, 30])
    assert upstream_rows(scores, 3) == [20, 20, 20]
    assert spread(scores, 3, 3.0, starts) == [5, 20, 35]
    assert spread(scores, 3) == [19, 20, 21]


@pytest.mark.parametrize("budget", [1, 2, 7, 16, 40])
def test_scene_hints_without_scenes_change_nothing(budget: int) -> None:
    video = make_video(200, seed=7)
    unhinted = sampler(scene_hints=False).select(video, "q", budget, None)
    assert sampler().select(video, "q", budget, None) == unhinted


def test_scene_hints_are_off_in_upstream_mode() -> None:
    video = make_video(200, seed=7)
    upstream_mode = sampler(compat="upstream")
    shots = video.scenes(9)
    assert upstream_mode.select(video, "q", 64, shots) == upstream_mode.select(video, "q", 64, None)


@pytest.mark.parametrize("budget", [1, 2, 8, 32, 99, 100])
@pytest.mark.parametrize("kind", ["cosine", "spike", "tied"])
def test_upstream_mode_still_keeps_the_contract(budget: int, kind: str) -> None:
    video = make_video(100, seed=8, score_kind="spike" if kind == "spike" else "cosine")
    indices = sampler(compat="upstream").select(video, "q", budget, None)
    check_selection(indices, video, budget, fills_budget=True)


@pytest.mark.parametrize("compat", ["safe", "upstream"])
@pytest.mark.parametrize("kind", ["constant", "nan", "no query"])
def test_the_fallback_is_uniform(compat: str, kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    uniform = UniformSampler(UniformSampler.Options(), encoder="default")
    assert sampler(compat=compat).select(video, query, 7, None) == uniform.select(
        video, None, 7, None
    )


@pytest.mark.parametrize("power", [0.0, -2.0, 101.0])
def test_a_power_out_of_range_is_refused(power: float) -> None:
    with pytest.raises(InvalidOptionsError, match="power"):
        BoltSampler.Options(power=power)
