"""How much the registered samplers ask of a model."""

from __future__ import annotations

import pytest

from samplers.registry import load_registry
from samplers.testing import CountingScorer, InMemoryScorer, make_video
from tests.contracts.test_sampler_contract import variants

REGISTRY = load_registry()
ASKING = [
    pytest.param(sampler_id, options, id=f"{sampler_id}-{options}")
    for sampler_id in REGISTRY.ids
    for options in variants(sampler_id)
    if REGISTRY.get(sampler_id).parse_options(options).uses_scorer
]
MOST_QUESTIONS = 256
"""Of any sampler with its defaults, however long the video."""


def num_questions(
    sampler_id: str, options: dict[str, object], query: str | None, budget: int
) -> int:
    scorer = CountingScorer(InMemoryScorer())
    sampler = REGISTRY.build(sampler_id, options, encoder="default", scorer=scorer)
    sampler.select(make_video(1_500, seed=9), query, budget, None)
    return scorer.num_questions


def test_the_samplers_that_ask_a_model_are_known() -> None:
    assert {str(param.values[0]) for param in ASKING} >= {"m-llm", "gens", "frame-voyager-lite"}


@pytest.mark.parametrize(("sampler_id", "options"), ASKING)
@pytest.mark.parametrize("budget", [1, 16, 100, 1_000])
def test_the_number_of_questions_is_bounded(
    sampler_id: str, options: dict[str, object], budget: int
) -> None:
    asked = num_questions(sampler_id, options, "where is the cat?", budget)
    assert asked <= MOST_QUESTIONS
    assert asked > 0 or budget > 16


@pytest.mark.parametrize(("sampler_id", "options"), ASKING)
@pytest.mark.parametrize(
    ("query", "budget"), [(None, 16), (None, 1), ("where?", 0), ("where?", 1_500), ("w", 9_999)]
)
def test_without_a_question_or_a_choice_nothing_is_asked(
    sampler_id: str, options: dict[str, object], query: str | None, budget: int
) -> None:
    assert num_questions(sampler_id, options, query, budget) == 0
