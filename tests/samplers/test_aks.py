from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samplers.aks import NO_STARTS, AksSampler, Halving, safe_rows, upstream_rows
from samplers.contract import InvalidOptionsError, Scene, TimeArray, check_selection
from samplers.testing import InMemoryVideo, make_video
from samplers.uniform import UniformSampler
from tests.samplers.golden_cases import HERE, GoldenCase, case_name, case_scores, golden_cases

CASES = golden_cases(HERE / "aks.json")


def upstream(case: GoldenCase) -> list[int]:
    given = case.get("params", case)
    return upstream_rows(
        case_scores(case), case["budget"], given["t1"], given["t2"], given["all_depth"]
    )


def halving(budget: int, **changes: float) -> Halving:
    given = {"t1": 0.8, "t2": -100.0, "all_depth": 5} | changes
    return Halving(budget, given["t1"], given["t2"], int(given["all_depth"]), NO_STARTS)


def scored_video(scores: TimeArray) -> InMemoryVideo:
    count = len(scores)
    return InMemoryVideo(
        video_id="scored",
        timestamps_s=np.arange(3 * count) / 10,
        candidates=np.arange(1, 3 * count, 3),
        embeddings=np.ones((count, 1), dtype=np.float32),
        fixed_scores=scores.astype(np.float32),
    )


def sampler(**options: Any) -> AksSampler:
    return AksSampler(replace(AksSampler.Options(), **options), encoder="default")


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_upstream_rows_equal_the_authors_output(case: GoldenCase) -> None:
    assert upstream(case) == case["expected"]


def test_upstream_rows_equal_the_authors_output_on_the_full_set(shared_dir: Path) -> None:
    cases = golden_cases(shared_dir / "golden" / "aks.json")
    assert len(cases) == 48
    assert [upstream(case) for case in cases] == [case["expected"] for case in cases]


def test_upstream_rows_of_nan_scores_are_the_earliest_of_every_part() -> None:
    scores = np.arange(16.0)
    scores[3] = np.nan
    assert upstream_rows(scores, 4, all_depth=2) == [0, 4, 8, 12]


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 6, 8, 16, 31, 33, 64, 200])
def test_safe_rows_fill_every_budget(budget: int) -> None:
    scores = np.random.default_rng(1).random(301)
    rows = safe_rows(scores, halving(budget))
    assert len(np.unique(rows)) == budget


def test_safe_rows_equal_upstream_where_upstream_fills_the_budget() -> None:
    scores = np.random.default_rng(2).random(3600)
    rows = safe_rows(scores, halving(64))
    assert sorted(rows.tolist()) == upstream_rows(scores, 64)


def test_the_quota_that_rounding_leaves_over_goes_to_the_best_part() -> None:
    scores = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9, 0.8, 0.3])
    rows = safe_rows(scores, halving(3, all_depth=1))
    assert sorted(rows.tolist()) == [3, 5, 6]


def test_peaked_relevance_is_not_halved() -> None:
    scores = np.zeros(64)
    scores[[40, 41]] = 1.0
    assert sorted(safe_rows(scores, halving(2)).tolist()) == [40, 41]


def test_one_frame_is_the_most_relevant_one() -> None:
    scores = np.random.default_rng(3).random(50)
    video = scored_video(scores)
    best = int(video.candidates[np.argmax(scores)])
    assert sampler().select(video, "q", 1, None) == [best]


def test_scene_hints_cut_at_the_boundary_nearest_the_middle() -> None:
    scores = np.full(20, 0.2)
    scores[[0, 9, 10, 11]] = [0.3, 1.0, 0.9, 0.95]
    video = scored_video(scores)
    # Shots begin at rows 0, 8 and 17: cut at 8, the best of each side are rows 0 and 9.
    shots = [Scene(0, 24), Scene(24, 51), Scene(51, 60)]
    options: dict[str, Any] = {"all_depth": 1, "t1": 2.0}
    hinted = sampler(**options).select(video, "q", 2, shots)
    assert hinted == video.candidates[[0, 9]].tolist()
    unhinted = sampler(**options, scene_hints=False).select(video, "q", 2, shots)
    assert unhinted == video.candidates[[9, 11]].tolist()


def test_a_boundary_near_the_end_of_a_part_is_passed_over() -> None:
    video = make_video(80, seed=4)
    title_card = [Scene(0, 12), Scene(12, video.num_frames)]
    unhinted = sampler(scene_hints=False).select(video, "q", 2, title_card)
    assert sampler().select(video, "q", 2, title_card) == unhinted


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


@pytest.mark.parametrize("budget", [1, 4, 8, 32, 100])
def test_upstream_mode_still_keeps_the_contract(budget: int) -> None:
    video = make_video(100, seed=8)
    indices = sampler(compat="upstream").select(video, "q", budget, None)
    check_selection(indices, video, budget, fills_budget=True)


def test_upstream_mode_keeps_the_authors_rows() -> None:
    scores = np.random.default_rng(5).random(400).astype(np.float32).astype(np.float64)
    video = scored_video(scores)
    rows = upstream_rows(scores, 32)
    assert len(rows) == 32
    selected = sampler(compat="upstream").select(video, "q", 32, None)
    assert selected == video.candidates[rows].tolist()


@pytest.mark.parametrize("compat", ["safe", "upstream"])
@pytest.mark.parametrize("kind", ["constant", "nan", "no query"])
def test_the_fallback_is_uniform(compat: str, kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    uniform = UniformSampler(UniformSampler.Options(), encoder="default")
    assert sampler(compat=compat).select(video, query, 7, None) == uniform.select(
        video, None, 7, None
    )


def test_a_depth_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidOptionsError, match="all_depth"):
        AksSampler.Options(all_depth=11)
