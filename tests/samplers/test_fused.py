from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers.adard_key import AdardKeySampler
from samplers.contract import (
    InvalidOptionsError,
    Sampler,
    Scene,
    TimeArray,
    check_selection,
)
from samplers.fused import FusedSampler, RepetitionKernel, shot_numbers, smoothed
from samplers.mdp3 import Mdp3Sampler, MultiGaussianKernel
from samplers.shot import ShotSampler
from samplers.testing import InMemoryVideo, make_video
from samplers.topk import TopkSampler


def sampler(**options: Any) -> FusedSampler:
    return FusedSampler(replace(FusedSampler.Options(), **options), encoder="default")


def made_kernel(num_rows: int, seed: int, looks_share: float = 0.5) -> RepetitionKernel:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((num_rows, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return RepetitionKernel(
        times_s=np.cumsum(rng.uniform(0.1, 3.0, num_rows)),
        shots=np.sort(rng.integers(0, 4, num_rows)),
        shot_share=0.6,
        reach_s=5.0,
        looks_share=looks_share,
        looks=MultiGaussianKernel.of(rows) if looks_share else None,
    )


def with_moments(seed: int, num_moments: int) -> tuple[InMemoryVideo, list[Scene], list[range]]:
    """Twenty minutes in shots, some of which are evidence: slightly more relevant, with noise."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 30, 90)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    num_rows = int(starts[-1])
    looks = rng.standard_normal((len(lengths), 24))
    evidence = rng.choice(np.flatnonzero(lengths <= 9), num_moments, replace=False)
    # Evidence looks alike wherever it is.
    looks[evidence] = looks[evidence[0]]
    embeddings = np.repeat(looks, lengths, axis=0) + rng.normal(0, 0.3, (num_rows, 24))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    scores = rng.normal(0.2, 0.03, num_rows)
    moments = [range(starts[shot], starts[shot + 1]) for shot in sorted(evidence.tolist())]
    for moment in moments:
        scores[moment.start : moment.stop] += 0.06
    video = InMemoryVideo(
        video_id=f"moments-{seed}",
        timestamps_s=np.arange(num_rows, dtype=np.float64),
        candidates=np.arange(num_rows),
        embeddings=embeddings.astype(np.float32),
        fixed_scores=scores.astype(np.float32),
    )
    scenes = [Scene(int(a), int(b)) for a, b in pairwise(starts)]
    return video, scenes, moments


def recall(chosen: Sampler, num_moments: int, budget: int) -> float:
    """Mean share of the moments that get a frame, over made videos."""
    shares = []
    for seed in range(12):
        video, scenes, moments = with_moments(seed, num_moments)
        rows = chosen.select(video, "q", budget, scenes)
        shares.append(np.mean([any(row in moment for row in rows) for moment in moments]))
    return float(np.mean(shares))


@pytest.mark.parametrize("looks_share", [0.0, 0.5, 1.0])
def test_the_kernel_equals_its_definition(looks_share: float) -> None:
    kernel = made_kernel(9, 1, looks_share)
    columns = kernel.columns(range(9))
    for i in range(9):
        for j in range(9):
            likeness = 1.0
            if kernel.looks is not None:
                alike = float(kernel.looks.columns([i])[0, j]) / 5
                likeness = 1 - looks_share + looks_share * alike
            apart_s = abs(kernel.times_s[i] - kernel.times_s[j])
            nearness = 0.4 * np.exp(-apart_s / 5.0) + 0.6 * (kernel.shots[i] == kernel.shots[j])
            assert columns[i, j] == pytest.approx(nearness * likeness)
    np.testing.assert_allclose(np.diag(columns), kernel.diagonal())
    few = np.array([2, 5, 6])
    np.testing.assert_allclose(kernel.restricted(few).columns([1])[0], columns[5, few])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_rows=st.integers(1, 30),
    looks_share=st.sampled_from([0, 0.3, 1]),
)
def test_the_kernel_is_positive_semi_definite(seed: int, num_rows: int, looks_share: float) -> None:
    columns = made_kernel(num_rows, seed, looks_share).columns(range(num_rows))
    assert np.linalg.eigvalsh(columns).min() > -1e-9


@pytest.mark.parametrize("num_moments", [2, 4])
@pytest.mark.parametrize("budget", [8, 16])
def test_it_finds_more_moments_than_each_of_its_parts_alone(num_moments: int, budget: int) -> None:
    found = recall(sampler(), num_moments, budget)
    parts: list[Sampler] = [
        TopkSampler(TopkSampler.Options(), encoder="default"),
        ShotSampler(ShotSampler.Options(weight="importance"), encoder="default"),
        AdardKeySampler(AdardKeySampler.Options(gate="off"), encoder="default"),
        Mdp3Sampler(Mdp3Sampler.Options(), encoder="default"),
    ]
    for part in parts:
        assert found > recall(part, num_moments, budget) + 0.05, part.id


def test_a_moment_that_comes_back_is_shown_again() -> None:
    video, scenes, moments = with_moments(3, 3)
    scores = np.full(len(video.candidates), 0.1, dtype=np.float32)
    for moment in moments:
        scores[moment.start : moment.stop] = 0.5
    rows = sampler().select(replace(video, fixed_scores=scores), "q", 3, scenes)
    assert [any(row in moment for row in rows) for moment in moments] == [True] * 3


def test_without_smoothing_and_repetition_relevance_alone_decides() -> None:
    video = make_video(120, seed=6)
    scores = video.scores("default", "q")
    best = np.sort(np.argsort(-scores, kind="stable")[:9])
    relevant = sampler(relevance_weight=1000.0, smoothing=0.0, eps=1.0, looks_share=0.0)
    assert relevant.select(video, "q", 9, None) == video.candidates[best].tolist()


def test_without_shots_they_are_detected() -> None:
    video = make_video(300, seed=5, dimension=64)
    assert sampler().select(video, "q", 8, None) != sampler().select(video, "q", 8, [])


def test_without_looks_and_with_shots_no_embeddings_are_read() -> None:
    video, scenes, _ = with_moments(0, 2)
    blind = replace(video, embeddings=None)
    selected = sampler(looks_share=0.0).select(blind, "q", 8, scenes)
    check_selection(selected, blind, 8, fills_budget=True)


@pytest.mark.parametrize("kind", ["constant", "nan"])
def test_the_fallback_spreads_over_shots_time_and_looks(kind: str) -> None:
    video = make_video(200, seed=1, dimension=32)
    scored = make_video(
        200, seed=1, dimension=32, score_kind="nan" if kind == "nan" else "constant"
    )
    scenes = video.scenes(8)
    spread = sampler().select(video, None, 8, scenes)
    assert sampler().select(scored, "q", 8, scenes) == spread
    shots = {next(n for n, s in enumerate(scenes) if index < s.end_frame) for index in spread}
    assert len(shots) >= 6


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("scenes", [None, [Scene(0, 40), Scene(30, 90)]])
def test_bad_embedding_rows_break_nothing(bad: float, scenes: list[Scene] | None) -> None:
    video = make_video(60, seed=4)
    assert video.embeddings is not None
    embeddings = video.embeddings.copy()
    embeddings[10:20] = bad
    scores = np.random.default_rng(0).random(60).astype(np.float32)
    spoilt = replace(video, embeddings=embeddings, fixed_scores=scores)
    for query, budget in (("q", 1), ("q", 5), ("q", 55), (None, 5), (None, 55)):
        selected = sampler().select(spoilt, query, budget, scenes)
        check_selection(selected, spoilt, budget, fills_budget=True)


def test_a_large_budget_is_bounded_work() -> None:
    video = make_video(2000, dimension=8)
    selected = sampler().select(video, "q", 1900, video.scenes(50))
    check_selection(selected, video, 1900, fills_budget=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("relevance_weight", -1.0),
        ("smoothing", 1.5),
        ("smoothing_s", -1.0),
        ("shot_share", 2.0),
        ("reach", 0.0),
        ("looks_share", -0.1),
        ("eps", 0.0),
    ],
)
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidOptionsError, match=name):
        sampler(**{name: value})


def naive_smoothed(
    relevance: TimeArray, times_s: TimeArray, shots: list[int], width_s: float
) -> list[float]:
    rows = range(len(relevance))
    return [
        float(
            np.mean(
                [
                    relevance[j]
                    for j in rows
                    if shots[i] == shots[j] and abs(times_s[i] - times_s[j]) <= width_s / 2
                ]
            )
        )
        for i in rows
    ]


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_rows=st.integers(1, 20),
    width_s=st.sampled_from([0.0, 1.0, 4.0, 1e6]),
)
def test_smoothing_takes_the_mean_of_what_is_near_in_the_shot(
    seed: int, num_rows: int, width_s: float
) -> None:
    rng = np.random.default_rng(seed)
    relevance: TimeArray = rng.random(num_rows)
    times_s: TimeArray = 0.75 * np.arange(num_rows, dtype=np.float64)
    starts = np.unique([0, *rng.integers(0, num_rows, 3).tolist()])
    shots = shot_numbers(starts, num_rows)
    assert shots[starts].tolist() == list(range(len(starts)))
    means = smoothed(relevance, times_s, starts, width_s, 1.0)
    expected = naive_smoothed(relevance, times_s, shots.tolist(), width_s)
    np.testing.assert_allclose(means, expected)
    np.testing.assert_allclose(
        smoothed(relevance, times_s, starts, width_s, 0.25), 0.75 * relevance + 0.25 * means
    )
