"""What a rollout asks the gateway about before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.rollout_surroundings import Deployment, LiveFacts, MeasuredFigures, can_be_on
from app.sampler_table import SamplerTable
from app.stores.ledger import Ledger
from app.stores.sqlite import sqlite_url
from flags.flag_file_editor import FlagFileEditor
from flags.guard_text import parse_guard
from flags.targeting import TARGETING_KEY
from samplers.registry import load_registry
from tests.fakes import FakeEncoderClient
from tests.flags.flag_files import document, flag, put

DEPLOYMENT = Deployment("merge", "demo", "llm")


def facts_of(encoder: FakeEncoderClient) -> LiveFacts:
    return LiveFacts(SamplerTable(load_registry(), {}, encoder="default"), encoder, DEPLOYMENT)


@pytest.mark.anyio
async def test_facts_follow_the_encoder_and_are_unknown_while_it_is_away() -> None:
    encoder = FakeEncoderClient()
    facts = facts_of(encoder)
    before = facts.facts("bolt", "aks")
    await facts.refresh()
    known = facts.facts("bolt", "aks")
    encoder.encoder_id = "fake@2"
    await facts.refresh()
    replaced = facts.facts("bolt", "aks")
    encoder.is_away = True
    await facts.refresh()

    assert before is None
    assert known is not None
    assert replaced is not None
    assert (known.encoder_id, replaced.encoder_id) == ("fake@00000001", "fake@2")
    assert (known.reducer_id, known.profile, known.llm_id) == ("merge", "demo", "llm")
    assert facts.facts("bolt", "aks") is None


@pytest.mark.anyio
async def test_a_sampler_that_is_not_there_has_no_facts() -> None:
    facts = facts_of(FakeEncoderClient())
    await facts.refresh()
    assert facts.facts("nonesuch", "aks") is None


@pytest.mark.parametrize(
    ("given", "is_on"),
    [
        (flag("off"), False),
        (flag("off", "bolt"), True),
        (flag("bolt", "off"), False),
        (flag("bolt", "off", rule={"if": [TARGETING_KEY, "bolt"]}), True),
        (flag(0), False),
        (flag(0.1), True),
        (flag(0.1) | {"state": "DISABLED"}, False),
        (None, False),
    ],
    ids=str,
)
def test_a_flag_of_the_shadow_may_be_on(given: Any, is_on: bool) -> None:
    assert can_be_on(given) is is_on


def why(folder: Path, guard: str, made: dict[str, Any]) -> str | None:
    path = folder / "flags.json"
    put(path, made)
    ledger = Ledger(sqlite_url(folder / "ledger.sqlite"))
    figures = MeasuredFigures(FlagFileEditor(path), ledger, facts_of(FakeEncoderClient()))
    try:
        return figures.why_unmeasurable(parse_guard(guard), "bolt", "aks")
    finally:
        ledger.close()


def shadowed(answer_rate: float | None) -> dict[str, Any]:
    made = document(shadow=flag("off", "uniform"), shadow_rate=flag(0.5))
    if answer_rate is not None:
        made["flags"]["video.sampler.shadow_answer_rate"] = flag(answer_rate)
    return made


@pytest.mark.parametrize(
    ("guard", "made", "said"),
    [
        ("sampler_failure<=1%", document(), None),
        ("feedback>=-5%", document(), None),
        ("model_calls<=1", document(), "neither `bolt` nor `aks` asks"),
        ("shadow_relevance>=0.9x", document(), "`video.sampler.shadow`"),
        ("shadow_relevance>=0.9x", shadowed(None), None),
        ("answer_agreement>=80%", shadowed(None), "`video.sampler.shadow_answer_rate`"),
        ("answer_agreement>=80%", shadowed(0.0), "keeps off"),
        ("answer_agreement>=80%", shadowed(0.2), None),
        ("answer_agreement>=80%", {}, "docs/shadow.md"),
    ],
)
def test_a_figure_that_nothing_measures_is_said_with_the_way_out(
    tmp_path: Path, guard: str, made: dict[str, Any], said: str | None
) -> None:
    found = why(tmp_path, guard, made)
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert said in found
