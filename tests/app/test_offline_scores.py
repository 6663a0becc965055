"""What recorded scores say before a rollout starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.offline_scores import OfflineScores
from app.stores.ledger import Ledger
from app.stores.ledger_rows import OfflineScore
from app.stores.sqlite import sqlite_url
from flags.guard_text import parse_guard

VERSION = "1"


class Versions:
    def version(self, sampler_id: str) -> str | None:
        return VERSION if sampler_id in {"aks", "bolt"} else None


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(sqlite_url(tmp_path / "ledger.sqlite"))
    yield opened
    opened.close()


def put(
    ledger: Ledger, sampler_id: str, value: float, *, dataset: str = "ours", questions: int = 200
) -> OfflineScore:
    score = OfflineScore(
        sampler_id=sampler_id,
        sampler_version=VERSION,
        score=value,
        dataset=dataset,
        num_questions=questions,
        who="ana",
        why="a run",
        at_s=1.0,
    )
    ledger.put_offline_score(score)
    return score


def why(ledger: Ledger, guard: str) -> str | None:
    return OfflineScores(ledger, Versions()).why_unusable(parse_guard(guard), "bolt", "aks")


def test_a_score_that_is_missing_is_asked_for(ledger: Ledger) -> None:
    put(ledger, "bolt", 0.55)
    assert why(ledger, "offline_score>=1x") == (
        "No offline score is recorded for aks: `framegate rollout score aks …` first."
    )
    assert why(ledger, "offline_score>=0.5") is None


@pytest.mark.parametrize(
    "guard", ["offline_score>=1x", "offline_score>=-0.02", "offline_score>=0.6"]
)
def test_a_promise_that_is_broken_already_is_refused_with_the_scores(
    ledger: Ledger, guard: str
) -> None:
    put(ledger, "bolt", 0.55)
    put(ledger, "aks", 0.58)
    said = why(ledger, guard)
    assert said is not None
    assert said.startswith(f"`{guard}` fails already")
    assert "`bolt` has 0.55 on ours (200 questions)" in said
    assert ("`aks` has 0.58 on ours (200 questions)" in said) is (guard != "offline_score>=0.6")
    assert why(ledger, f"dry:{guard}") is None


def test_the_latest_score_counts(ledger: Ledger) -> None:
    put(ledger, "aks", 0.58)
    put(ledger, "bolt", 0.55)
    put(ledger, "bolt", 0.61)
    assert why(ledger, "offline_score>=1x") is None


@pytest.mark.parametrize(("dataset", "questions"), [("theirs", 200), ("ours", 100)])
def test_scores_on_other_questions_are_not_compared(
    ledger: Ledger, dataset: str, questions: int
) -> None:
    put(ledger, "bolt", 0.61)
    put(ledger, "aks", 0.58, dataset=dataset, questions=questions)
    said = why(ledger, "offline_score>=1x")
    assert said is not None
    assert "cannot be compared" in said
    assert why(ledger, "offline_score>=0.5") is None


def test_what_comes_after_a_score_is_the_one_that_is_missing(ledger: Ledger) -> None:
    scores = OfflineScores(ledger, Versions())
    control = put(ledger, "aks", 0.58)
    assert scores.next_step(control, "aks").startswith(
        "framegate rollout score CANDIDATE … --dataset ours --questions 200"
    )
    assert scores.next_step(control, None).startswith("framegate rollout score OTHER …")
    candidate = put(ledger, "bolt", 0.55)
    assert "could not start yet. `offline_score>=1x` fails already" in scores.next_step(
        candidate, "aks"
    )
    put(ledger, "bolt", 0.61)
    for recorded in (candidate, control):
        assert scores.next_step(recorded, "aks") == (
            "framegate rollout start bolt … --guard 'offline_score>=1x'"
        )
