"""The contract, for every registered sampler in every mode that its options name."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samplers.contract import (
    FeaturesMissingError,
    FrameScorer,
    Sampler,
    Scene,
    ScorerUnavailableError,
    check_selection,
)
from samplers.registry import load_registry
from samplers.testing import (
    FailingScorer,
    InMemoryScorer,
    InMemoryVideo,
    awkward_scorers,
    check_sampler,
)

REGISTRY = load_registry()


def variants(sampler_id: str) -> list[dict[str, object]]:
    """Every combination of the sampler's named choices and switches."""
    choices = {
        option.name: option.choices or (True, False)
        for option in REGISTRY.get(sampler_id).options
        if option.choices or option.type_name == "boolean"
    }
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


SCORERS = [InMemoryScorer(), *awkward_scorers("default").values(), FailingScorer(), None]
EVERY_VARIANT = [
    pytest.param(
        sampler_id, options, id="-".join([sampler_id, *(f"{k}={v}" for k, v in options.items())])
    )
    for sampler_id in REGISTRY.ids
    for options in variants(sampler_id)
]


@st.composite
def videos(draw: st.DrawFn) -> InMemoryVideo:
    num_frames = draw(st.integers(1, 120))
    chosen = draw(st.sets(st.integers(0, num_frames - 1), min_size=1, max_size=60))
    candidates = np.array(sorted(chosen), dtype=np.int64)
    intervals_s = draw(
        st.lists(st.sampled_from([0.001, 0.04, 0.5, 7.0]), min_size=num_frames, max_size=num_frames)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    embeddings = rng.standard_normal((len(candidates), 5))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return InMemoryVideo(
        video_id="generated",
        timestamps_s=np.cumsum(intervals_s),
        candidates=candidates,
        embeddings=draw(st.none() | damaged(embeddings.astype(np.float32))),
        fixed_scores=draw(st.none() | scores(len(candidates))),
    )


def damaged(
    embeddings: np.typing.NDArray[np.float32],
) -> st.SearchStrategy[np.typing.NDArray[np.float32]]:
    """As they are, or with the first row repeated, zero or NaN in some places."""
    others = [embeddings.copy() for _ in range(3)]
    for other, value in zip(others, (embeddings[0], 0.0, np.nan), strict=True):
        other[::3] = value
    return st.sampled_from([embeddings, *others])


@st.composite
def scores(draw: st.DrawFn, num_rows: int) -> np.typing.NDArray[np.float32]:
    """Cosines at their worst: equal, opposite, not finite, hardly different."""
    values = st.sampled_from([-1.0, 0.0, 0.25, 0.25 + 1e-7, 1.0])
    odd = st.sampled_from([np.nan, np.inf, -np.inf])
    drawn = draw(st.lists(values, min_size=num_rows, max_size=num_rows))
    if draw(st.integers(0, 4)) == 0:
        drawn[draw(st.integers(0, num_rows - 1))] = draw(odd)
    return np.array(drawn, dtype=np.float32)


@st.composite
def shots(draw: st.DrawFn, num_frames: int) -> list[Scene] | None:
    """None, shots that cover the video, or now and then some that no index writes."""
    if draw(st.booleans()):
        return None
    if draw(st.integers(0, 4)) == 0:
        ends = st.tuples(st.integers(-5, num_frames + 5), st.integers(-5, num_frames + 5))
        return [Scene(*sorted(pair)) for pair in draw(st.lists(ends, max_size=6))]
    inner = draw(st.sets(st.integers(1, max(1, num_frames - 1)), max_size=12))
    edges = [0, *sorted(edge for edge in inner if edge < num_frames), num_frames]
    return [Scene(start, end) for start, end in pairwise(edges)]


def selected(
    sampler: Sampler,
    scorer: FrameScorer | None,
    video: InMemoryVideo,
    query: str | None,
    budget: int,
    scenes: list[Scene] | None,
) -> list[int] | None:
    try:
        indices = sampler.select(video, query, budget, scenes)
    except ScorerUnavailableError:
        assert sampler.options.uses_scorer
        assert isinstance(scorer, FailingScorer | None)
        return None
    except FeaturesMissingError:
        assert video.embeddings is None
        return None
    return check_selection(indices, video, budget, fills_budget=sampler.fills_budget)


@pytest.mark.parametrize(("sampler_id", "options"), EVERY_VARIANT)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_sampler_keeps_the_contract(
    sampler_id: str, options: dict[str, object], data: st.DataObject
) -> None:
    scorer = data.draw(st.sampled_from(SCORERS))
    sampler = REGISTRY.build(sampler_id, options, encoder="default", scorer=scorer)
    video = data.draw(videos())
    query = data.draw(st.sampled_from([None, "a red car"]))
    budget = data.draw(st.integers(0, 70) | st.just(10**6))
    scenes = data.draw(shots(video.num_frames))
    first = selected(sampler, scorer, video, query, budget, scenes)
    assert selected(sampler, scorer, video, query, budget, scenes) == first


@pytest.mark.parametrize(("sampler_id", "options"), EVERY_VARIANT)
def test_every_sampler_passes_the_conformance_kit(
    sampler_id: str, options: dict[str, object]
) -> None:
    entry = REGISTRY.get(sampler_id)
    check_sampler(entry.sampler_class, entry.parse_options(options))


@pytest.mark.parametrize("sampler_id", REGISTRY.ids)
def test_a_video_without_candidates_gives_no_frames(sampler_id: str) -> None:
    video = InMemoryVideo(
        video_id="empty",
        timestamps_s=np.array([0.0, 0.5]),
        candidates=np.array([], dtype=np.int64),
        embeddings=np.empty((0, 4), dtype=np.float32),
    )
    sampler = REGISTRY.build(sampler_id, {}, encoder="default", scorer=InMemoryScorer())
    assert sampler.select(video, "q", 4, [Scene(0, 2)]) == []
    assert sampler.select(video, None, 4, None) == []


@pytest.mark.parametrize("sampler_id", REGISTRY.ids)
def test_frames_grow_with_the_budget_until_all_candidates_are_taken(sampler_id: str) -> None:
    sampler = REGISTRY.build(sampler_id, {}, encoder="default", scorer=InMemoryScorer())
    rng = np.random.default_rng(0)
    video = InMemoryVideo(
        video_id="long",
        timestamps_s=np.arange(400) / 4,
        candidates=np.arange(1, 400, 4),
        embeddings=(rng.standard_normal((100, 4)) / 2).astype(np.float32),
    )
    counts = [len(sampler.select(video, "q", budget, None)) for budget in range(1, 130)]
    assert counts == [min(budget, 100) for budget in range(1, 130)]
