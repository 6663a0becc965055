"""Records for tests of the ledger, made up or drawn, and ledgers on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st

from app.stores.ledger import Ledger
from app.stores.ledger_rows import FeedbackRecord, FeedbackVerdict, SelectionRecord
from app.stores.sqlite import sqlite_url
from flags.rollout_plan import (
    Comparison,
    EpochFacts,
    Figure,
    Guard,
    IntentRecord,
    Reference,
    Rollout,
    RolloutPlan,
    RolloutState,
    RolloutStep,
    Statistic,
    StepKind,
)
from shadow.records import ComparisonKind, ComparisonRecord, SideRecord
from tests.app.postgres import Postgres, running_postgres

SALT = "salt-1"
NOW_S = 1_800_000_000.0


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "ledger.sqlite").render_as_string()
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    opened = Ledger(ledger_url, clock=lambda: NOW_S)
    yield opened
    opened.close()


def selection(answer_id: str = "answer-1", **changes: object) -> SelectionRecord:
    values: dict[str, object] = {
        "answer_id": answer_id,
        "tenant": "default",
        "video_id": "video-1",
        "user_hash": "user-1",
        "created_s": NOW_S + 1.0,
        "decided_sampler_id": "aks",
        "decided_sampler_version": "1",
        "variant": "candidate",
        "reason": "split",
        "flag_version": "7@abc",
        "salt": SALT,
        "engine_version": "2.0.0",
        "is_exposure": True,
        "flag_error": None,
        "sampler_id": "aks",
        "sampler_version": "1",
        "sampler_options": {"all_depth": 4},
        "fallback_kind": None,
        "fallback_message": None,
        "encoder_id": "encoder@1",
        "decode_version": "d1",
        "detector_version": "s1",
        "fps": 2.0,
        "budget": 4,
        "limited_by": "max_frames",
        "reducer_id": "merge",
        "profile": "demo",
        "llm_id": "llm",
        "video_seconds": 10.0,
        "indices": [0, 4, 8, 12],
        "vision_tokens_before": 8,
        "vision_tokens_after": 4,
        "input_tokens": 30,
        "output_tokens": 5,
        "latency_s": {"select_frames": 0.01, "total": 0.5},
        "encoder_device_s": 0.02,
        "model_calls": 0,
        "state": "done",
        "error": None,
    }
    return SelectionRecord(**values | changes)  # type: ignore[arg-type]  # names of its fields


def feedback(answer_id: str = "answer-1", **changes: object) -> FeedbackRecord:
    values: dict[str, object] = {
        "answer_id": answer_id,
        "tenant": "default",
        "video_id": "video-1",
        "verdict": FeedbackVerdict.GOOD,
        "reason": "true",
        "created_s": NOW_S + 2.0,
    }
    return FeedbackRecord(**values | changes)  # type: ignore[arg-type]  # names of its fields


def side(sampler_id: str = "uniform", **changes: object) -> SideRecord:
    values: dict[str, object] = {
        "sampler_id": sampler_id,
        "sampler_version": "1",
        "sampler_options": {},
        "indices": [0, 8],
        "seconds": [0.0, 4.0],
        "latency_s": 0.001,
    }
    return SideRecord(**values | changes)  # type: ignore[arg-type]  # names of its fields


def comparison(comparison_id: str = "comparison-1", **changes: object) -> ComparisonRecord:
    values: dict[str, object] = {
        "comparison_id": comparison_id,
        "answer_id": "answer-1",
        "tenant": "default",
        "video_id": "video-1",
        "user_hash": "user-1",
        "created_s": NOW_S + 1.0,
        "kind": ComparisonKind.SAMPLER,
        "question": "What is there?",
        "flag_version": "7@abc",
        "encoder_id": "encoder@1",
        "llm_id": "llm",
        "profile": "demo",
        "reducer_id": "merge",
        "budget": 2,
        "video_seconds": 10.0,
        "num_candidates": 20,
        "control": side("uniform"),
        "shadow": side("bolt"),
        "overlap_exact": 0.5,
        "overlap_within": 1.0,
        "tolerance_s": 1.0,
        "temporal_distance_s": 0.25,
    }
    return ComparisonRecord(**values | changes)  # type: ignore[arg-type]  # names of its fields


def plan() -> RolloutPlan:
    guard = Guard(
        Figure.SAMPLER_FAILURE, Statistic.MEAN, Comparison.AT_MOST, 0.01, Reference.ABSOLUTE
    )
    return RolloutPlan(
        candidate="aks",
        control="uniform",
        stages=(1, 5, 50),
        dwell_s=3600.0,
        min_users=100,
        min_answers=500,
        guards=(guard,),
    )


def rollout(
    rollout_id: str = "rollout-1", state: RolloutState = RolloutState.RUNNING, stage: int = 0
) -> Rollout:
    facts = EpochFacts(
        candidate_version="1",
        control_version="1",
        encoder_id="encoder@1",
        reducer_id="merge",
        profile="demo",
        llm_id="llm",
    )
    return Rollout(
        rollout_id=rollout_id,
        plan=plan(),
        state=state,
        stage=stage,
        stage_started_s=NOW_S,
        epoch=1,
        epoch_started_s=NOW_S,
        salt=SALT,
        facts=facts,
        reason="started by ana",
    )


def step(
    sequence: int = 1, rollout_id: str = "rollout-1", kind: StepKind = StepKind.STARTED
) -> RolloutStep:
    return RolloutStep(
        rollout_id=rollout_id,
        sequence=sequence,
        kind=kind,
        who="ana",
        why="better frames",
        at_s=NOW_S + sequence,
        old_weight=None,
        new_weight=1,
        stage=0,
        epoch=1,
        salt=SALT,
        flag_digest_before="a" * 64,
        flag_digest_after="b" * 64,
        evidence={"guards": [{"figure": "sampler_failure", "value": 0.0}]},
    )


def intent(sequence: int = 1) -> IntentRecord:
    return IntentRecord(rollout=rollout(), step=step(sequence))


# Texts without what no database holds (see test_ledger), and numbers that are numbers.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
numbers = st.floats(0.0, 1e9)
counts = st.integers(0, 2**31 - 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def drawn_selections() -> st.SearchStrategy[SelectionRecord]:
    optional = st.none() | texts
    return st.builds(
        SelectionRecord,
        user_hash=optional,
        decided_sampler_version=optional,
        variant=optional,
        flag_version=optional,
        salt=optional,
        flag_error=optional,
        fallback_kind=optional,
        fallback_message=optional,
        error=optional,
        input_tokens=st.none() | counts,
        output_tokens=st.none() | counts,
        sampler_options=st.dictionaries(texts, json_values, max_size=3),
        indices=st.lists(counts, max_size=8),
        latency_s=st.dictionaries(texts, numbers, max_size=3),
        state=st.sampled_from(["done", "failed", "cancelled"]),
        **dict.fromkeys(("created_s", "fps", "video_seconds", "encoder_device_s"), numbers),
        **dict.fromkeys(
            ("budget", "vision_tokens_before", "vision_tokens_after", "model_calls"), counts
        ),
        **dict.fromkeys(
            (
                "answer_id",
                "tenant",
                "video_id",
                "decided_sampler_id",
                "reason",
                "engine_version",
                "sampler_id",
                "sampler_version",
                "encoder_id",
                "decode_version",
                "detector_version",
                "limited_by",
                "reducer_id",
                "profile",
                "llm_id",
            ),
            texts,
        ),
    )


def drawn_sides() -> st.SearchStrategy[SideRecord]:
    return st.builds(
        SideRecord,
        sampler_id=texts,
        sampler_version=texts,
        sampler_options=st.dictionaries(texts, json_values, max_size=3),
        indices=st.lists(counts, max_size=8),
        seconds=st.lists(numbers, max_size=8),
        latency_s=numbers,
        failure_kind=st.none() | texts,
        failure_message=st.none() | texts,
        relevance=st.none() | st.floats(-1, 1),
        redundancy=st.none() | st.floats(-1, 1),
        scene_coverage=st.none() | st.floats(0, 1),
        model_calls=counts,
        vision_tokens=st.none() | counts,
        output_tokens=st.none() | counts,
        encoder_device_s=numbers,
        answer=st.none() | texts,
    )


def drawn_comparisons() -> st.SearchStrategy[ComparisonRecord]:
    shares = st.none() | st.floats(0, 1)
    return st.builds(
        ComparisonRecord,
        kind=st.sampled_from(ComparisonKind),
        user_hash=st.none() | texts,
        flag_version=st.none() | texts,
        agreement_method=st.none() | texts,
        control=drawn_sides(),
        shadow=drawn_sides(),
        budget=counts,
        num_candidates=counts,
        overlap_exact=shares,
        overlap_within=shares,
        answers_agree=shares,
        temporal_distance_s=st.none() | numbers,
        **dict.fromkeys(("created_s", "video_seconds", "tolerance_s"), numbers),
        **dict.fromkeys(
            (
                "comparison_id",
                "answer_id",
                "tenant",
                "video_id",
                "question",
                "encoder_id",
                "llm_id",
                "profile",
                "reducer_id",
            ),
            texts,
        ),
    )
