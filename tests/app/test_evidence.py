"""The evidence's document, put together from what the stages found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.budget import Budget, BudgetLimit
from app.evidence import DeploymentFacts, EvidenceParts, cache_lookups, evidence_document
from app.generate.contract import GenerationOptions
from app.question import Question
from app.reduce.none import NoneReducer
from app.sampler_table import SamplerTable
from app.select_frames import Fallback, Selection, SelectionRequest
from app.selection_inputs import SelectionInputs
from flags.evaluate import Decision
from observability.names import Cache, SamplerFailure
from samplers.registry import load_registry
from tests.app.stored_video import ENCODER_ID, VIDEO_ID, store_video

INDICES = [0, 3, 150]
FACTS = DeploymentFacts(
    table=SamplerTable(load_registry(), {"aks": {"all_depth": 4}}, encoder="default"),
    reducer_id="none",
    encoder_id=ENCODER_ID,
    llm_id="fake-llm",
    profile="demo",
)


@pytest.fixture
def parts(tmp_path: Path) -> EvidenceParts:
    library = store_video(tmp_path / "data")
    video = library.open(VIDEO_ID)
    request = SelectionRequest(library.handle(video, {}, {}), "what?", 3, video.scenes)
    decision = Decision(
        sampler_id="aks",
        reason="SPLIT",
        variant="new",
        flag_version="7@abc",
        engine_version="2.0.0",
        provider_name="file",
        has_targeting_key=True,
    )
    return EvidenceParts(
        question=Question("a1", "t", VIDEO_ID, "what?", None, None, None, 0, GenerationOptions(8)),
        video=video,
        decision=decision,
        budget=Budget(3, BudgetLimit.CANDIDATES),
        inputs=SelectionInputs(request, True, 0.0, ("cut off",)),
        selection=Selection(INDICES, "aks", None),
        reduced=NoneReducer(NoneReducer.Options()).reduce(np.zeros((3, 2, 5), np.float32)),
    )


def test_times_come_from_the_frame_table(parts: EvidenceParts) -> None:
    frames = evidence_document(parts, FACTS, {}).frames

    assert [frame.index for frame in frames] == INDICES
    assert [frame.seconds for frame in frames] == [0.0, 0.12, 6.0]
    assert frames[1].picture == f"/v1/videos/{VIDEO_ID}/frames/3.jpg"


def test_scenes_end_where_the_next_begins_and_the_last_with_the_video(
    parts: EvidenceParts,
) -> None:
    scenes = evidence_document(parts, FACTS, {}).scenes
    assert [(scene.start_s, scene.end_s) for scene in scenes] == [(0.0, 6.0), (6.0, 12.0)]


def test_the_sampler_that_was_used_is_named_with_its_options(parts: EvidenceParts) -> None:
    sampler = evidence_document(parts, FACTS, {}).sampler

    assert (sampler.id, sampler.variant, sampler.reason) == ("aks", "new", "SPLIT")
    assert sampler.options["all_depth"] == 4
    assert sampler.fallback is None


def test_a_fallback_names_both_samplers(parts: EvidenceParts) -> None:
    fallback = Fallback("aks", SamplerFailure.DEADLINE, "too slow")
    failed = replace(parts, selection=Selection(INDICES, "uniform", fallback))
    sampler = evidence_document(failed, FACTS, {}).sampler

    assert (sampler.id, sampler.options) == ("uniform", FACTS.table.options("uniform"))
    assert sampler.fallback is not None
    assert (sampler.fallback.sampler, sampler.fallback.kind) == ("aks", "deadline")


def test_budget_tokens_and_warnings_are_what_the_stages_said(parts: EvidenceParts) -> None:
    document = evidence_document(parts, FACTS, {"encode": 0.1})

    assert (document.budget.frames, document.budget.limited_by) == (3, "candidates")
    assert document.vision_tokens.before_reduction == 6
    assert document.vision_tokens.after_reduction == 6
    assert document.warnings == ["cut off"]
    assert document.timings_s == {"encode": 0.1}


@pytest.mark.parametrize("is_hit", [True, False, None])
def test_a_query_vector_that_was_not_looked_up_is_not_counted(
    parts: EvidenceParts, is_hit: bool | None
) -> None:
    lookups = cache_lookups(
        replace(parts, inputs=replace(parts.inputs, is_query_vector_hit=is_hit))
    )
    assert lookups.get(Cache.QUERY_VECTORS) is is_hit


def test_what_was_waited_for_is_a_miss(parts: EvidenceParts) -> None:
    waited = replace(parts, video=replace(parts.video, was_stored=False))

    assert cache_lookups(parts)[Cache.FEATURES] is True
    assert cache_lookups(waited)[Cache.FEATURES] is False


def test_a_document_cannot_be_changed(parts: EvidenceParts) -> None:
    document = evidence_document(parts, FACTS, {})
    with pytest.raises(ValueError, match="frozen"):
        setattr(document, "llm", "another")  # noqa: B010 - a plain assignment does not type-check


def test_a_sampler_that_says_why_is_quoted(parts: EvidenceParts) -> None:
    noted = replace(parts, selection=Selection(INDICES, "aks", None, note="several moments"))
    assert evidence_document(noted, FACTS, {}).sampler.note == "several moments"
    assert evidence_document(parts, FACTS, {}).sampler.note is None
