from __future__ import annotations

import numpy as np
import pytest

from samplers.testing import make_video
from samplers.uniform import UniformSampler


def sampler(mode: str = "centre") -> UniformSampler:
    options = UniformSampler.Options(mode="endpoints" if mode == "endpoints" else "centre")
    return UniformSampler(options, encoder="default")


def test_uniform_takes_the_middles_of_equal_bins() -> None:
    video = make_video(40, seed=1)
    assert sampler().select(video, None, 4, None) == video.candidates[[5, 15, 25, 35]].tolist()


def test_uniform_at_endpoints_includes_the_first_and_the_last_candidate() -> None:
    video = make_video(40, seed=1)
    rows = np.linspace(0, 39, 4).astype(int)
    assert sampler("endpoints").select(video, None, 4, None) == video.candidates[rows].tolist()


@pytest.mark.parametrize("mode", ["centre", "endpoints"])
@pytest.mark.parametrize("budget", [1, 7, 39, 40, 41])
def test_uniform_never_exceeds_budget_or_candidates(mode: str, budget: int) -> None:
    video = make_video(40, seed=1)
    assert len(sampler(mode).select(video, "q", budget, None)) == min(budget, 40)


def test_uniform_needs_no_features() -> None:
    video = make_video(40, seed=1, has_features=False)
    assert len(sampler().select(video, "q", 8, None)) == 8
