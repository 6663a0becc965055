"""From the ledger's rows to the columns of a rollout's running stage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.rollout_outcomes import LedgerOutcomes
from app.stores.ledger import Ledger
from app.stores.ledger_rows import FeedbackRecord, FeedbackVerdict, OfflineScore, SelectionRecord
from flags.guard_text import parse_guard
from flags.outcomes import Outcomes
from flags.rollout_changes import By, started
from flags.rollout_plan import Figure, Rollout
from shadow.records import ComparisonKind, ComparisonRecord, SideRecord
from tests.flags.rollout_world import FACTS, request

BEGAN_S = 1_000_000.0


def rollout(*guards: str, **changes: Any) -> Rollout:
    plan = request(guards=tuple(map(parse_guard, guards))).plan("aks")
    made = started("r1", plan, FACTS, BEGAN_S, By("ana", "better")).rollout
    return replace(made, **({"stage_started_s": BEGAN_S} | changes))


def selection(answer_id: str, user: str = "ann", **changes: Any) -> SelectionRecord:
    fields: dict[str, Any] = {
        "answer_id": answer_id,
        "tenant": "default",
        "video_id": "v" * 64,
        "user_hash": user,
        "created_s": BEGAN_S + 1,
        "decided_sampler_id": "bolt",
        "decided_sampler_version": "1",
        "variant": "bolt",
        "reason": "split",
        "flag_version": "2@1",
        "salt": "video.sampler/r1/1/",
        "engine_version": "2.0.0",
        "is_exposure": True,
        "flag_error": None,
        "sampler_id": "bolt",
        "sampler_version": "1",
        "sampler_options": {},
        "fallback_kind": None,
        "fallback_message": None,
        "encoder_id": FACTS.encoder_id,
        "decode_version": "d1",
        "detector_version": "s1",
        "fps": 2.0,
        "budget": 4,
        "limited_by": "request",
        "reducer_id": FACTS.reducer_id,
        "profile": FACTS.profile,
        "llm_id": FACTS.llm_id,
        "video_seconds": 10.0,
        "indices": [1, 2],
        "vision_tokens_before": 16,
        "vision_tokens_after": 8,
        "input_tokens": 20,
        "output_tokens": 5,
        "latency_s": {"select_frames": 0.01, "total": 0.5},
        "encoder_device_s": 0.02,
        "model_calls": 0,
        "state": "done",
        "error": None,
    }
    return SelectionRecord(**(fields | changes))


def source(ledger: Ledger, *, max_exposures: int = 1000) -> LedgerOutcomes:
    return LedgerOutcomes(ledger, lambda: BEGAN_S + 100, max_exposures=max_exposures)


def values(outcomes: Outcomes, figure: Figure) -> list[float]:
    return [float(value) for value in outcomes.column(figure)]


def test_arms_are_as_assigned_and_failures_are_told_apart(ledger: Ledger) -> None:
    ledger.put_selections(
        [
            selection("1", "ann"),
            selection("2", "bob", fallback_kind="raised", sampler_id="uniform"),
            selection("3", "cat", fallback_kind="dependency", sampler_id="uniform"),
            selection("4", "ann", state="failed", error="urn:x", vision_tokens_after=0),
            selection("5", "dan", decided_sampler_id="aks", sampler_id="aks"),
        ]
    )
    found = source(ledger).outcomes(rollout("fallback<=1%"))

    assert list(found.user) == [0, 1, 2, 0, 3]
    assert list(found.is_candidate) == [True, True, True, True, False]
    assert values(found, Figure.SAMPLER_FAILURE) == [0, 1, 0, 0, 0]
    assert values(found, Figure.DEPENDENCY_FAILURE) == [0, 0, 1, 0, 0]
    assert values(found, Figure.FALLBACK) == [0, 1, 1, 0, 0]
    assert values(found, Figure.ANSWER_ERROR) == [0, 0, 0, 1, 0]
    assert values(found, Figure.TOTAL_S) == [0.5] * 5
    assert values(found, Figure.SELECTION_S) == [0.01] * 5
    assert values(found, Figure.ENCODER_DEVICE_S) == [0.02] * 5
    assert list(found.ended_s) == [BEGAN_S + 1.5] * 5
    assert np.isnan(found.column(Figure.VISION_TOKENS)[3])
    assert found.column(Figure.VISION_TOKENS)[0] == 8


@pytest.mark.parametrize(
    "changes",
    [
        {"created_s": BEGAN_S - 0.001},
        {"is_exposure": False},
        {"user_hash": None},
        {"salt": "video.sampler/r1/2/"},
        {"decided_sampler_id": "shot"},
        {"decided_sampler_version": "2"},
        {"encoder_id": "fake@2"},
        {"reducer_id": "none"},
        {"llm_id": "other"},
        {"profile": "remote"},
    ],
    ids=str,
)
def test_what_is_not_of_the_running_stage_and_its_epoch_is_left_out(
    ledger: Ledger, changes: dict[str, Any]
) -> None:
    ledger.put_selections([selection("1", **changes), selection("2")])
    assert len(source(ledger).outcomes(rollout("fallback<=1%"))) == 1


def test_only_what_is_new_is_read_and_earlier_arrays_stay_as_they_were(ledger: Ledger) -> None:
    read = source(ledger)
    ledger.put_selections([selection("1", "ann")])
    first = read.outcomes(rollout("feedback>=50%"))
    ledger.put_selections([selection("2", "bob"), selection("3", "ann")])
    good = FeedbackRecord(
        answer_id="1",
        tenant="default",
        video_id="v" * 64,
        verdict=FeedbackVerdict.GOOD,
        reason="",
        created_s=BEGAN_S + 50,
    )
    ledger.put_feedback(good)
    second = read.outcomes(rollout("feedback>=50%"))
    ledger.put_feedback(replace(good, verdict=FeedbackVerdict.BAD, created_s=BEGAN_S + 60))
    third = read.outcomes(rollout("feedback>=50%"))

    assert (len(first), len(second)) == (1, 3)
    assert list(second.user) == [0, 1, 0]
    assert np.isnan(first.column(Figure.FEEDBACK)[0])
    assert second.column(Figure.FEEDBACK)[0] == 1
    assert second.known_s[Figure.FEEDBACK][0] == BEGAN_S + 50
    assert third.column(Figure.FEEDBACK)[0] == 0
    assert third.known_s[Figure.FEEDBACK][0] == BEGAN_S + 60


def test_a_stage_begins_with_what_was_asked_since_also_when_it_was_read_before(
    ledger: Ledger,
) -> None:
    read = source(ledger)
    ledger.put_selections([selection("1"), selection("2", created_s=BEGAN_S + 30)])
    assert len(read.outcomes(rollout("fallback<=1%"))) == 2
    later = rollout("fallback<=1%", stage=1, stage_started_s=BEGAN_S + 20)
    assert len(read.outcomes(later)) == 1


def comparison(answer_id: str, **changes: Any) -> ComparisonRecord:
    def side(sampler_id: str, relevance: float) -> SideRecord:
        return SideRecord(
            sampler_id=sampler_id,
            sampler_version="1",
            sampler_options={},
            indices=[1],
            seconds=[0.5],
            latency_s=0.01,
            relevance=relevance,
        )

    fields: dict[str, Any] = {
        "comparison_id": f"c{answer_id}",
        "answer_id": answer_id,
        "tenant": "default",
        "video_id": "v" * 64,
        "user_hash": "ann",
        "created_s": BEGAN_S + 2,
        "kind": ComparisonKind.SAMPLER,
        "question": "What?",
        "flag_version": None,
        "encoder_id": FACTS.encoder_id,
        "llm_id": FACTS.llm_id,
        "profile": FACTS.profile,
        "reducer_id": FACTS.reducer_id,
        "budget": 4,
        "video_seconds": 10.0,
        "num_candidates": 20,
        "control": side("bolt", 0.3),
        "shadow": side("uniform", 0.1),
        "overlap_exact": 0.5,
        "overlap_within": 0.5,
        "tolerance_s": 1.0,
        "temporal_distance_s": 0.5,
        "answers_agree": 0.75,
        "agreement_method": "embedding",
    }
    return ComparisonRecord(**(fields | changes))


def test_comparisons_give_the_relevance_of_what_served_and_the_agreement(ledger: Ledger) -> None:
    ledger.put_selections([selection("1"), selection("2", "bob"), selection("3", "cat")])
    ledger.put_comparisons([comparison("1"), comparison("2", kind=ComparisonKind.A_A)])
    found = source(ledger).outcomes(rollout("shadow_relevance>=0.9x", "answer_agreement>=50%"))

    relevance, agreement = (
        found.column(figure) for figure in (Figure.SHADOW_RELEVANCE, Figure.ANSWER_AGREEMENT)
    )
    assert list(relevance[:2]) == [0.3, 0.3]
    assert agreement[0] == 0.75
    assert np.isnan(agreement[1:]).all()
    assert np.isnan(relevance[2])
    assert found.known_s[Figure.SHADOW_RELEVANCE][0] == BEGAN_S + 2


def test_the_last_offline_score_of_the_running_version_stands_for_its_arm(ledger: Ledger) -> None:
    ledger.put_selections(
        [selection("1"), selection("2", decided_sampler_id="aks", sampler_id="aks")]
    )
    for sampler_id, version, value in (
        ("bolt", "1", 0.5),
        ("bolt", None, 0.6),
        ("bolt", "2", 0.9),
        ("aks", "1", 0.4),
    ):
        ledger.put_offline_score(
            OfflineScore(
                sampler_id=sampler_id,
                sampler_version=version,
                score=value,
                dataset="ours",
                num_questions=9,
                who="ana",
                why="run",
                at_s=BEGAN_S,
            )
        )
    found = source(ledger).outcomes(rollout("offline_score>=1x"))
    assert values(found, Figure.OFFLINE_SCORE) == [0.6, 0.4]


def test_the_memory_is_bounded_and_the_latest_stay(ledger: Ledger) -> None:
    read = source(ledger, max_exposures=10)
    for number in range(25):
        ledger.put_selections([selection(str(number), f"u{number % 7}", model_calls=number)])
        read.outcomes(rollout("fallback<=1%"))
    found = read.outcomes(rollout("fallback<=1%"))

    assert 5 <= len(found) <= 10
    assert found.column(Figure.MODEL_CALLS)[-1] == 24
    codes = list(dict.fromkeys(int(code) for code in found.user))
    assert codes == list(range(len(codes)))
