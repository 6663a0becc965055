from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from samplers.contract import InvalidOptionsError, TimeArray
from samplers.q_frame import QFrameSampler, gumbel_top_rows, standardised
from samplers.selection import top_rows
from samplers.testing import make_video
from samplers.uniform import UniformSampler

NUM_DRAWS = 8_000


def sampler(**options: Any) -> QFrameSampler:
    return QFrameSampler(replace(QFrameSampler.Options(), **options), encoder="default")


def chance_of_set(probabilities: TimeArray, rows: tuple[int, ...]) -> float:
    """Of drawing these rows, in any order, one after the other without replacement."""
    total = 0.0
    for order in permutations(rows):
        chance, left = 1.0, 1.0
        for row in order:
            chance *= probabilities[row] / left
            left -= probabilities[row]
        total += chance
    return total


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_are_drawn_from_the_softmax_without_replacement(count: int) -> None:
    logits = np.array([0.0, 1.0, -1.0, 2.0, 0.5])
    probabilities = np.exp(logits) / np.exp(logits).sum()
    rng = np.random.default_rng(11)
    drawn = Counter(tuple(gumbel_top_rows(logits, count, rng).tolist()) for _ in range(NUM_DRAWS))
    for rows in combinations(range(5), count):
        expected = chance_of_set(probabilities, rows)
        # Five standard deviations of a binomial share, at a fixed seed.
        margin = 5 * np.sqrt(expected * (1 - expected) / NUM_DRAWS)
        assert drawn[rows] / NUM_DRAWS == pytest.approx(expected, abs=margin)


def test_the_draw_is_the_same_in_every_process() -> None:
    logits = np.linspace(0, 3, 50)
    assert gumbel_top_rows(logits, 5, np.random.default_rng(7)).tolist() == [6, 24, 32, 37, 46]


def test_a_low_temperature_is_plain_top_k() -> None:
    video = make_video(200, seed=3)
    expected = video.candidates[top_rows(video.scores("default", "q"), 12)].tolist()
    assert sampler(tau=0.001).select(video, "q", 12, None) == expected


def test_standard_scale_does_not_depend_on_the_encoders_range() -> None:
    scores = make_video(150, seed=4).scores("default", "q").astype(np.float64)
    np.testing.assert_allclose(standardised(20 * scores - 3), standardised(scores), atol=1e-9)
    np.testing.assert_allclose([standardised(scores).mean(), standardised(scores).std()], [0, 1])


def test_raw_cosines_hardly_tell_frames_apart_at_the_published_temperature() -> None:
    video = make_video(3600, dimension=64, seed=5)
    scores = video.scores("default", "q")

    def mean_score(scale: str) -> float:
        drawn = sampler(scale=scale, tau=0.8)
        rows = np.searchsorted(video.candidates, drawn.select(video, "q", 200, None))
        return float(scores[rows].mean())

    deviation = float(scores.std())
    assert mean_score("raw") < scores.mean() + 0.4 * deviation
    assert mean_score("standard") > scores.mean() + 0.8 * deviation


def test_seed_question_video_and_budget_each_change_the_draw() -> None:
    video, other = make_video(300, seed=6), make_video(300, seed=7)
    first = sampler().select(video, "q", 9, None)
    assert sampler(seed=1).select(video, "q", 9, None) != first
    assert sampler().select(other, "q", 9, None) != first
    assert set(first) - set(sampler().select(video, "q", 10, None))
    assert sampler().select(video, "q", 9, video.scenes(4)) == first


def test_one_frame_far_above_all_is_always_drawn() -> None:
    video = make_video(400, score_kind="spike")
    spike = int(video.candidates[400 // 3])
    assert all(spike in sampler(seed=seed).select(video, "q", 3, None) for seed in range(20))


@pytest.mark.parametrize("kind", ["constant", "nan", "no query"])
def test_the_fallback_is_uniform(kind: str) -> None:
    video = make_video(90, score_kind="constant" if kind == "constant" else "nan")
    query = None if kind == "no query" else "q"
    uniform = UniformSampler(UniformSampler.Options(), encoder="default")
    assert sampler().select(video, query, 7, None) == uniform.select(video, None, 7, None)
    note = sampler().select_with_note(video, query, 7, None).note
    assert note == "no usable scores: uniform"


@pytest.mark.parametrize("tau", [0.0, -1.0, 1001.0, np.nan])
def test_a_temperature_out_of_range_is_refused(tau: float) -> None:
    with pytest.raises(InvalidOptionsError, match="tau"):
        QFrameSampler.Options(tau=tau)
