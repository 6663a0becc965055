"""Rollouts, their steps, intents, offline scores and leases, on both databases."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from itertools import product

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from app.stores.ledger import Ledger
from app.stores.ledger_rollouts import RolloutConflictError
from app.stores.ledger_rows import OfflineScore
from flags.rollout_plan import RolloutState, StepKind
from tests.app.ledger_world import NOW_S, intent, rollout, step


def test_a_rollout_and_its_step_are_saved_together(ledger: Ledger) -> None:
    ledger.save_rollout(rollout(), step())
    assert ledger.find_rollout("rollout-1") == rollout()
    assert ledger.active_rollout() == rollout()
    assert ledger.rollout_steps("rollout-1") == [step()]


def test_what_is_not_there_is_none_or_empty(ledger: Ledger) -> None:
    assert ledger.find_rollout("rollout-1") is None
    assert ledger.active_rollout() is None
    assert ledger.list_rollouts() == []
    assert ledger.rollout_steps("rollout-1") == []
    assert ledger.open_intent() is None
    assert ledger.offline_scores() == []


@pytest.mark.parametrize("state", RolloutState)
def test_only_a_running_or_paused_rollout_is_active(ledger: Ledger, state: RolloutState) -> None:
    ledger.save_rollout(rollout(state=state), step())
    is_active = state in {RolloutState.RUNNING, RolloutState.PAUSED}
    assert (ledger.active_rollout() is not None) is is_active


def test_steps_are_appended_one_after_the_other(ledger: Ledger) -> None:
    ledger.save_rollout(rollout(), step(1))
    advanced = rollout(stage=1)
    ledger.save_rollout(advanced, step(2, kind=StepKind.ADVANCED))
    assert ledger.find_rollout("rollout-1") == advanced
    assert [one.sequence for one in ledger.rollout_steps("rollout-1")] == [1, 2]


@pytest.mark.parametrize("sequence", [0, 1, 3])
def test_a_step_that_is_not_the_next_one_is_refused_and_changes_nothing(
    ledger: Ledger, sequence: int
) -> None:
    ledger.save_rollout(rollout(), step(1))
    with pytest.raises(RolloutConflictError):
        ledger.save_rollout(rollout(stage=2), step(sequence))
    assert ledger.find_rollout("rollout-1") == rollout()
    assert len(ledger.rollout_steps("rollout-1")) == 1


def test_a_second_rollout_waits_for_the_end_of_the_first(ledger: Ledger) -> None:
    ledger.save_rollout(rollout("first"), step(1, "first"))
    with pytest.raises(RolloutConflictError, match="first"):
        ledger.save_rollout(rollout("second"), step(1, "second"))

    ended = rollout("first", RolloutState.COMPLETED)
    ledger.save_rollout(ended, step(2, "first", StepKind.COMPLETED))
    ledger.save_rollout(rollout("second"), replace(step(1, "second"), at_s=NOW_S + 60.0))
    assert [one.rollout_id for one in ledger.list_rollouts()] == ["second", "first"]


def test_of_many_that_take_the_same_step_at_once_one_succeeds(ledger: Ledger) -> None:
    ledger.save_rollout(rollout(), step(1))
    outcomes: list[str] = []

    def take(who: str) -> None:
        try:
            ledger.save_rollout(rollout(stage=1), replace(step(2), who=who))
        except RolloutConflictError:
            outcomes.append("refused")
        else:
            outcomes.append(who)

    threads = [threading.Thread(target=take, args=(str(number),)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = [one for one in outcomes if one != "refused"]
    assert len(outcomes) == 6
    assert [one.who for one in ledger.rollout_steps("rollout-1")] == ["ana", winner]


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("update", "UPDATE rollout_steps SET who = 'eve'"),
        ("delete", "DELETE FROM rollout_steps"),
        ("replace", "INSERT OR REPLACE INTO rollout_steps SELECT * FROM rollout_steps"),
        ("truncate", "TRUNCATE rollout_steps"),
    ],
)
def test_no_statement_changes_or_removes_a_step(
    ledger: Ledger, ledger_url: str, name: str, statement: str
) -> None:
    kind = make_url(ledger_url).get_backend_name()
    if (kind, name) in {("sqlite", "truncate"), ("postgresql", "replace")}:
        pytest.skip(f"{kind} has no such statement")
    ledger.save_rollout(rollout(), step())
    url = make_url(ledger_url)
    driver = "postgresql+psycopg" if kind == "postgresql" else "sqlite"
    engine = create_engine(url.set(drivername=driver))
    with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
    assert ledger.rollout_steps("rollout-1") == [step()]


def test_one_intent_is_open_at_a_time(ledger: Ledger) -> None:
    ledger.put_intent(intent(1))
    assert ledger.open_intent() == intent(1)
    with pytest.raises(RolloutConflictError):
        ledger.put_intent(intent(2))

    ledger.close_intent()
    ledger.close_intent()
    assert ledger.open_intent() is None
    ledger.put_intent(intent(2))
    assert ledger.open_intent() == intent(2)


def test_evidence_with_numbers_that_are_none_is_kept_without_them(ledger: Ledger) -> None:
    evidence = {"bounds": [float("-inf"), 0.25], "value": float("nan")}
    ledger.save_rollout(rollout(), replace(step(), evidence=evidence))
    [kept] = ledger.rollout_steps("rollout-1")
    assert kept.evidence == {"bounds": [None, 0.25], "value": None}


def score(sampler_id: str, value: float) -> OfflineScore:
    return OfflineScore(
        sampler_id=sampler_id,
        sampler_version=None,
        score=value,
        dataset="internal-300",
        num_questions=300,
        who="ana",
        why="before the rollout",
        at_s=NOW_S,
    )


def test_offline_scores_are_found_by_sampler_in_the_order_they_came(ledger: Ledger) -> None:
    scores = [score(name, value) for name, value in product(("aks", "bolt"), (0.5, 0.25))]
    for one in scores:
        ledger.put_offline_score(one)
    assert ledger.offline_scores() == scores
    assert ledger.offline_scores("bolt") == scores[2:]
    assert ledger.offline_scores("bolt", "aks") == scores


def test_a_lease_has_one_holder_until_it_ends(ledger: Ledger) -> None:
    assert ledger.take_lease("rollout", "one", 60.0)
    assert ledger.take_lease("rollout", "one", 60.0)
    assert not ledger.take_lease("rollout", "two", 60.0)
    assert ledger.take_lease("another", "two", 60.0)

    ledger.release_lease("rollout", "two")
    assert not ledger.take_lease("rollout", "two", 60.0)
    ledger.release_lease("rollout", "one")
    assert ledger.take_lease("rollout", "two", 60.0)


def test_a_lease_that_ran_out_goes_to_whoever_asks(ledger: Ledger) -> None:
    assert ledger.take_lease("rollout", "one", 0.05)
    time.sleep(0.1)
    assert ledger.take_lease("rollout", "two", 60.0)
    assert not ledger.take_lease("rollout", "one", 60.0)


def test_of_many_that_ask_for_a_lease_at_once_one_gets_it(ledger: Ledger) -> None:
    got: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda name=str(number): got.append(ledger.take_lease("rollout", name, 60.0))
        )
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 5 + [True]
