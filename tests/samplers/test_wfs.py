from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.contract import InvalidOptionsError, TimeArray, check_selection
from samplers.maxvol import MaxvolSampler
from samplers.testing import InMemoryVideo, make_video
from samplers.uniform import UniformSampler
from samplers.wavelet import boundary_rows
from samplers.wfs import (
    SegmentRule,
    WfsSampler,
    mmr_rows,
    safe_rows,
    segment_quotas,
    upstream_rows,
)
from tests.samplers.golden_cases import (
    HERE,
    GoldenCase,
    case_name,
    case_pictures,
    case_scores,
    golden_cases,
)


def wfs_cases(file: Path) -> list[GoldenCase]:
    """Every case, without the words that say how generated scores were scaled."""
    return [
        {key: value for key, value in case.items() if not (key == "scores" and "gen" in case)}
        for case in golden_cases(file)
    ]


CASES = wfs_cases(HERE / "wfs_sb.json")


def upstream(case: GoldenCase) -> list[int]:
    pictures = case_pictures(case) if case.get("features") else None
    return upstream_rows(case_scores(case), pictures, case["budget"])


def naive_mmr_rows(
    relevance: TimeArray, similarities: TimeArray, count: int, mmr_lambda: float
) -> list[int]:
    picks = [int(np.argmax(relevance))]
    while len(picks) < count:
        rest = [row for row in range(len(relevance)) if row not in picks]
        picks.append(
            max(
                rest,
                key=lambda row: (
                    mmr_lambda * (2 * relevance[row] - 1)
                    - (1 - mmr_lambda) * max(similarities[pick, row] for pick in picks)
                ),
            )
        )
    return picks


def sampler(**options: Any) -> WfsSampler:
    return WfsSampler(replace(WfsSampler.Options(), **options), encoder="default")


def wave(num_rows: int) -> TimeArray:
    """Three stretches of relevance in a calm video."""
    rows = np.arange(num_rows)
    return sum(
        (np.exp(-0.5 * ((rows - share * num_rows) / (num_rows / 40)) ** 2) for share in (0.2, 0.5)),
        np.random.default_rng(0).normal(0, 0.01, num_rows),
    )


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_upstream_rows_equal_the_authors_output(case: GoldenCase) -> None:
    assert upstream(case) == case["expected"]


def test_upstream_rows_equal_the_authors_output_on_the_full_set(shared_dir: Path) -> None:
    cases = wfs_cases(shared_dir / "golden" / "wfs_sb.json")
    assert len(cases) == 11
    assert [upstream(case) for case in cases] == [case["expected"] for case in cases]


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_rows=st.integers(1, 20),
    mmr_lambda=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
)
def test_marginal_relevance_equals_its_definition(
    seed: int, num_rows: int, mmr_lambda: float
) -> None:
    rng = np.random.default_rng(seed)
    relevance, similarities = rng.random(num_rows), rng.uniform(-1, 1, (num_rows, num_rows))
    count = min(num_rows, 7)
    picks = mmr_rows(relevance, lambda row: similarities[row], count, mmr_lambda)
    assert picks == naive_mmr_rows(relevance, similarities, count, mmr_lambda)


def test_marginal_relevance_without_redundancy_is_relevance() -> None:
    relevance = np.random.default_rng(1).random(30)
    picks = mmr_rows(relevance, lambda row: np.ones(30), 5, 1.0)
    assert picks == np.argsort(-relevance)[:5].tolist()


def test_a_similarity_that_is_no_number_counts_as_full_likeness() -> None:
    similarities = np.array([[1.0, np.nan, 0.2], [np.nan, np.nan, np.nan], [0.2, np.nan, 1.0]])
    picks = mmr_rows(np.array([1.0, 0.6, 0.5]), lambda row: similarities[row], 2, 0.5)
    assert picks == [0, 2]


def test_of_three_segments_none_is_left_out() -> None:
    scores = np.concatenate([np.full(50, 0.9), np.linspace(0, 0.1, 5), np.full(50, 0.8)])
    starts, caps = np.array([0, 50, 55]), np.array([50, 5, 50])
    quotas = segment_quotas(scores, starts, 12, SegmentRule(strictness=0.5), caps)
    assert quotas.min() > 0


def test_unimportant_segments_get_no_frame() -> None:
    parts = [np.full(100, 0.9), np.full(100, 0.8), np.full(100, 0.85), np.linspace(0, 0.3, 9)]
    scores = np.concatenate(parts)
    starts, caps = np.array([0, 100, 200, 300]), np.array([100, 100, 100, 9])
    quotas = segment_quotas(scores, starts, 12, SegmentRule(), caps)
    assert quotas.tolist() == [4, 4, 4, 0]
    assert segment_quotas(scores, starts, 12, SegmentRule(strictness=9.0), caps)[3] > 0


def test_a_low_temperature_gives_the_most_important_segment_its_fill() -> None:
    scores = np.concatenate([np.linspace(0, 0.2, 50), np.linspace(0.5, 1.0, 10)])
    starts, caps = np.array([0, 50]), np.array([50, 10])
    cold = segment_quotas(scores, starts, 20, SegmentRule(temperature=0.01), caps)
    assert cold.tolist() == [10, 10]
    assert segment_quotas(scores, starts, 8, SegmentRule(temperature=0.01), caps).tolist() == [0, 8]


@pytest.mark.parametrize("budget", [1, 2, 7, 16, 64, 300])
@pytest.mark.parametrize("redundancy", ["embeddings", "time"])
def test_safe_rows_are_unique_and_as_many_as_segments_hold(budget: int, redundancy: str) -> None:
    video = make_video(400, seed=3)
    embeddings = video.embeddings if redundancy == "embeddings" else None
    rows, num_segments = safe_rows(wave(400), embeddings, budget, SegmentRule())
    assert len(set(rows)) == len(rows) == budget
    assert num_segments > 1


def test_safe_rows_equal_upstream_on_a_long_video() -> None:
    scores = np.random.default_rng(7).random(2000)
    rows, _ = safe_rows(scores, None, 24, SegmentRule())
    assert sorted(rows) == upstream_rows(scores, None, 24)


def test_a_short_video_is_one_segment() -> None:
    scores = np.random.default_rng(2).random(40)
    _, num_segments = safe_rows(scores, None, 8, SegmentRule())
    assert num_segments == 1
    assert len(boundary_rows(scores)) > 1


def test_every_relevant_stretch_is_shown() -> None:
    video = replace(make_video(600, seed=1), fixed_scores=wave(600).astype(np.float32))
    selection = sampler().select_with_note(video, "q", 6, None)
    rows = np.searchsorted(video.candidates, selection.indices)
    assert any(100 < row < 140 for row in rows)
    assert any(280 < row < 320 for row in rows)
    assert selection.note is not None
    assert selection.note.endswith(" segments")


def test_upstream_mode_keeps_the_authors_rows() -> None:
    scores = np.random.default_rng(5).random(400).astype(np.float32)
    video = replace(make_video(400), fixed_scores=scores)
    rows = upstream_rows(scores, None, 20)
    selected = sampler(compat="upstream", redundancy="time").select(video, "q", 20, None)
    assert selected == video.candidates[rows].tolist()


def test_redundancy_in_time_reads_no_embeddings() -> None:
    video = replace(make_video(100), embeddings=None, fixed_scores=wave(100).astype(np.float32))
    assert len(sampler(redundancy="time").select(video, "q", 8, None)) == 8


@pytest.mark.parametrize("compat", ["safe", "upstream"])
@pytest.mark.parametrize("kind", ["constant", "nan", "no query"])
def test_the_fallback_is_maxvol_or_without_embeddings_uniform(compat: str, kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    maxvol = MaxvolSampler(MaxvolSampler.Options(), encoder="default")
    uniform = UniformSampler(UniformSampler.Options(), encoder="default")
    by_looks = sampler(compat=compat).select_with_note(video, query, 7, None)
    assert by_looks.indices == maxvol.select(video, None, 7, None)
    assert by_looks.note == "no usable scores: maxvol"
    by_time = sampler(compat=compat, redundancy="time").select_with_note(video, query, 7, None)
    assert by_time.indices == uniform.select(video, None, 7, None)
    assert by_time.note == "no usable scores: uniform"


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("compat", ["safe", "upstream"])
def test_bad_embedding_rows_break_nothing(bad: float, compat: str) -> None:
    video = make_video(200, seed=4)
    assert video.embeddings is not None
    embeddings = video.embeddings.copy()
    embeddings[10:60] = bad
    spoilt = InMemoryVideo(
        video_id="spoilt",
        timestamps_s=video.timestamps_s,
        candidates=video.candidates,
        embeddings=embeddings,
        fixed_scores=wave(200).astype(np.float32),
    )
    for budget in (1, 5, 190):
        selected = sampler(compat=compat).select(spoilt, "q", budget, None)
        check_selection(selected, spoilt, budget, fills_budget=True)


def test_a_large_budget_is_bounded_work() -> None:
    video = make_video(3000, dimension=8)
    selected = sampler().select(video, "q", 2900, None)
    check_selection(selected, video, 2900, fills_budget=True)


@pytest.mark.parametrize(
    ("name", "value"), [("mmr_lambda", 1.1), ("strictness", -1.0), ("temperature", 0.0)]
)
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidOptionsError, match=name):
        sampler(**{name: value})
