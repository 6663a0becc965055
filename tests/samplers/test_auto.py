from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samplers.auto import DELEGATES, AutoSampler
from samplers.contract import FeaturesMissingError, FloatArray, NotedSelection
from samplers.registry import load_registry
from samplers.testing import InMemoryVideo, make_video

WHOLE = "What is this video about?"
MOMENT = "When does the dog jump?"
SEVERAL = "What happens after the bell rings?"
UNDECIDED = "dog on skateboard"
REGISTRY = load_registry()


def sampler(**options: Any) -> AutoSampler:
    return AutoSampler(replace(AutoSampler.Options(), **options), encoder="default")


def noted(
    video: InMemoryVideo, query: str | None, budget: int = 12, **options: Any
) -> NotedSelection:
    return sampler(**options).select_with_note(video, query, budget, video.scenes(9))


def alone(sampler_id: str, video: InMemoryVideo, query: str | None, budget: int = 12) -> list[int]:
    built = REGISTRY.build(sampler_id, {}, encoder="default")
    return built.select(video, query, budget, video.scenes(9))


def with_scores(*peaks: int) -> InMemoryVideo:
    video = make_video(600, seed=4)
    scores: FloatArray = np.random.default_rng(0).normal(0.2, 0.01, 600).astype(np.float32)
    for peak in peaks:
        scores[peak : peak + 4] += 0.3
    return replace(video, fixed_scores=scores)


@pytest.mark.parametrize(
    ("query", "sampler_id", "note"),
    [
        (WHOLE, "uniform", 'whole video ("this video about"): uniform'),
        (MOMENT, "topk", 'one moment ("when does"): topk'),
        (SEVERAL, "wfs", 'several moments ("after"): wfs'),
    ],
)
def test_the_words_of_the_question_choose_the_sampler(
    query: str, sampler_id: str, note: str
) -> None:
    video = make_video(300, seed=2)
    assert noted(video, query) == NotedSelection(alone(sampler_id, video, query), note)


@pytest.mark.parametrize(
    ("peaks", "sampler_id", "note"),
    [
        ((), "wfs", "several moments (no score stands out): wfs"),
        ((100,), "topk", "one moment (scores with one peak): topk"),
        ((100, 400), "wfs", "several moments (scores with 2 peaks): wfs"),
    ],
)
def test_scores_choose_the_sampler_where_the_words_do_not(
    peaks: tuple[int, ...], sampler_id: str, note: str
) -> None:
    video = with_scores(*peaks)
    assert noted(video, UNDECIDED) == NotedSelection(alone(sampler_id, video, UNDECIDED), note)


def test_words_come_before_scores() -> None:
    selection = noted(with_scores(100, 400), MOMENT)
    assert selection.note == 'one moment ("when does"): topk'


@pytest.mark.parametrize(
    ("option", "sampler_id", "query"),
    [
        ("whole_video", "maxvol", WHOLE),
        ("one_moment", "gift", MOMENT),
        ("several_moments", "adard-key", SEVERAL),
        ("several_moments", "aks", SEVERAL),
    ],
)
def test_the_routes_are_options(option: str, sampler_id: str, query: str) -> None:
    video = make_video(300, seed=2)
    options: dict[str, Any] = {option: sampler_id}
    selection = noted(video, query, **options)
    assert selection.indices == alone(sampler_id, video, query)


def test_every_route_is_a_built_in_sampler() -> None:
    routes = {choice for option in REGISTRY.get("auto").options for choice in option.choices}
    assert routes == set(DELEGATES)
    for sampler_id, make in DELEGATES.items():
        built = make("another-encoder")
        assert (built.id, built.encoder) == (sampler_id, "another-encoder")
        assert built.options == REGISTRY.get(sampler_id).parse_options({})


def test_without_a_question_frames_are_those_of_maxvol() -> None:
    video = make_video(300, seed=2)
    expected = NotedSelection(alone("maxvol", video, None), "no question: maxvol")
    assert noted(video, None) == expected


def test_without_a_question_and_embeddings_frames_are_those_of_uniform() -> None:
    video = make_video(300, has_features=False)
    expected = NotedSelection(alone("uniform", video, None), "no question: uniform")
    assert noted(video, None) == expected


@pytest.mark.parametrize("score_kind", ["constant", "nan", "infinite"])
def test_scores_that_rank_nothing_lead_to_maxvol(score_kind: Any) -> None:
    video = make_video(300, score_kind=score_kind)
    note = "the scores rank nothing: maxvol"
    assert noted(video, UNDECIDED) == NotedSelection(alone("maxvol", video, None), note)


def test_a_question_about_the_whole_video_needs_no_features() -> None:
    video = make_video(300, has_features=False)
    assert noted(video, WHOLE).indices == alone("uniform", video, WHOLE)


@pytest.mark.parametrize("query", [MOMENT, SEVERAL, UNDECIDED])
def test_other_questions_do(query: str) -> None:
    with pytest.raises(FeaturesMissingError):
        noted(make_video(300, has_features=False), query)


@pytest.mark.parametrize("budget", [0, 300, 1000])
def test_nothing_is_routed_when_nothing_is_chosen(budget: int) -> None:
    video = make_video(300)
    selection = noted(video, MOMENT, budget)
    assert selection == NotedSelection(video.candidates.tolist()[:budget], None)


def test_select_returns_the_indices_of_the_note() -> None:
    video = make_video(300, seed=2)
    for query in (WHOLE, MOMENT, SEVERAL, UNDECIDED, None):
        indices = sampler().select(video, query, 9, None)
        assert indices == sampler().select_with_note(video, query, 9, None).indices
