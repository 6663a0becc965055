from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samplers.contract import InvalidOptionsError, TimeArray, check_selection
from samplers.mdp3 import (
    Mdp3Sampler,
    MultiGaussianKernel,
    multi_gaussian,
    question_bonus,
)
from samplers.testing import InMemoryVideo, make_video


def sampler(**options: Any) -> Mdp3Sampler:
    return Mdp3Sampler(replace(Mdp3Sampler.Options(), **options), encoder="default")


def mixture(x: TimeArray, y: TimeArray) -> float:
    """The kernel of two vectors as the paper writes it."""
    distance = float(((x - y) ** 2).sum())
    return float(sum(np.exp(-distance / (2 * 2.0**power)) for power in range(-3, 2)))


def naive_rows(video: InMemoryVideo, query: str | None, count: int) -> list[int]:
    """Greedy maximisation of the published objective, from its definition."""
    assert video.embeddings is not None
    frames = video.embeddings.astype(np.float64)
    frames /= np.linalg.norm(frames, axis=1, keepdims=True)
    kernel = np.array([[mixture(x, y) for y in frames] for x in frames])
    bonus, picks = np.zeros(len(frames)), [len(frames) // 2]
    if query is not None:
        question = video.query_embedding("default", query).astype(np.float64)
        bonus = np.array([2 / 0.2 * np.log(mixture(question, frame)) for frame in frames])
        picks = []
    while len(picks) < count:
        rest = [row for row in range(len(frames)) if row not in picks]
        picks.append(
            max(
                rest,
                key=lambda row: (
                    bonus[[*picks, row]].sum()
                    + np.linalg.slogdet(kernel[np.ix_([*picks, row], [*picks, row])]).logabsdet
                ),
            )
        )
    return sorted(picks)


def test_the_kernel_is_the_published_mixture() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = np.array([[mixture(x, y) for y in rows] for x in rows])
    kernel = MultiGaussianKernel.of(rows)
    np.testing.assert_allclose(kernel.columns(range(6)), expected)
    np.testing.assert_allclose(kernel.columns([3])[0], expected[3])
    np.testing.assert_allclose(kernel.diagonal(), np.full(6, 5.0))
    every = np.arange(6)
    np.testing.assert_allclose(kernel.block(every[:2], every[3:]), expected[:2, 3:])
    np.testing.assert_allclose(
        kernel.restricted(np.array([1, 4])).columns([0]), expected[1, [1, 4]][np.newaxis]
    )


def test_distances_below_zero_by_rounding_are_zero() -> None:
    assert multi_gaussian(np.array([-1e-7]))[0] == 5.0


def test_a_frame_nearer_to_the_question_is_worth_more() -> None:
    bonus = question_bonus(np.array([-1.0, 0.0, 0.2, 1.0]), 0.2)
    assert (np.diff(bonus) > 0).all()
    assert bonus[-1] == pytest.approx(10 * np.log(5))


@pytest.mark.parametrize("query", ["q", None])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_choice_is_the_best_one_by_the_definition(query: str | None, seed: int) -> None:
    video = make_video(40, seed=seed, dimension=32)
    expected = video.candidates[naive_rows(video, query, 7)].tolist()
    assert sampler(segment_size=-1).select(video, query, 7, None) == expected


def test_a_high_lambda_is_diversity_and_a_low_one_relevance() -> None:
    video = make_video(120, seed=6, dimension=32)
    scores = video.scores("default", "q")
    best = np.sort(np.argsort(-scores, kind="stable")[:9])
    relevant = sampler(relevance_lambda=0.001).select(video, "q", 9, None)
    # A near-repeat loses to the tenth best score: its determinant nearly vanishes.
    assert len(set(relevant) & set(video.candidates[best].tolist())) >= 8
    diverse = sampler(relevance_lambda=1000.0).select(video, "q", 9, None)
    shown = np.searchsorted(video.candidates, diverse)
    assert video.embeddings is not None
    closeness = video.embeddings @ video.embeddings.T - np.eye(120)
    assert closeness[np.ix_(shown, shown)].max() < closeness[np.ix_(best, best)].max()


def test_one_segment_for_all_candidates_is_no_segment() -> None:
    video = make_video(60, seed=8, dimension=32)
    assert sampler(segment_size=512).select(video, "q", 9, None) == sampler(segment_size=-1).select(
        video, "q", 9, None
    )


def test_segments_let_a_picture_come_back_later() -> None:
    looks = np.repeat(np.eye(8)[[0, 1, 2, 3, 0]], 16, axis=0).astype(np.float32)
    video = InMemoryVideo(
        video_id="again",
        timestamps_s=np.arange(80) / 2,
        candidates=np.arange(80),
        embeddings=looks,
        fixed_scores=np.where(looks[:, 0] > 0, 0.3, np.linspace(0, 0.1, 80)).astype(np.float32),
    )
    stretches = [row // 16 for row in sampler(segment_size=16).select(video, "q", 5, None)]
    assert stretches == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("segment_size", [-1, 2, 7, 32])
@pytest.mark.parametrize("budget", [1, 2, 8, 99])
def test_segments_of_any_size_fill_the_budget(segment_size: int, budget: int) -> None:
    video = make_video(100, seed=4)
    for query in ("q", None):
        selected = sampler(segment_size=segment_size).select(video, query, budget, None)
        check_selection(selected, video, budget, fills_budget=True)


@pytest.mark.parametrize("kind", ["constant", "nan"])
def test_without_usable_scores_diversity_alone_decides(kind: str) -> None:
    scored = make_video(90, seed=1, score_kind="nan" if kind == "nan" else "constant")
    plain = make_video(90, seed=1)
    assert sampler().select(scored, "q", 7, None) == sampler().select(plain, None, 7, None)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("segment_size", [-1, 8])
def test_bad_embedding_rows_break_nothing(bad: float, segment_size: int) -> None:
    video = make_video(60, seed=4)
    assert video.embeddings is not None
    embeddings = video.embeddings.copy()
    embeddings[10:20] = bad
    scores = np.random.default_rng(0).random(60).astype(np.float32)
    spoilt = replace(video, embeddings=embeddings, fixed_scores=scores)
    for query, budget in (("q", 1), ("q", 5), ("q", 55), (None, 5), (None, 55)):
        selected = sampler(segment_size=segment_size).select(spoilt, query, budget, None)
        check_selection(selected, spoilt, budget, fills_budget=True)


def test_a_large_budget_is_bounded_work() -> None:
    video = make_video(2000, dimension=8)
    for segment_size in (-1, 32):
        selected = sampler(segment_size=segment_size).select(video, "q", 1900, None)
        check_selection(selected, video, 1900, fills_budget=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("relevance_lambda", 0.0), ("segment_size", 0), ("segment_size", 1), ("segment_size", 513)],
)
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidOptionsError, match=name):
        sampler(**{name: value})
