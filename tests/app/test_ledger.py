"""The ledger's answers, comparisons and deletions, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from sqlalchemy import URL

from app.settings import SettingsError
from app.stores.ledger import Ledger
from app.stores.ledger_database import RecordRefusedError
from app.stores.ledger_rows import FeedbackVerdict, RecordCounts, SelectionRecord
from shadow.records import ComparisonRecord
from tests.app.ledger_world import (
    NOW_S,
    SALT,
    comparison,
    drawn_comparisons,
    drawn_selections,
    feedback,
    selection,
    side,
)

drawn = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def answers_after(ledger: Ledger, sequence: int = 0, salt: str = SALT) -> list[str]:
    return [exposure.answer_id for exposure in ledger.exposures_after(sequence, salt=salt)]


@drawn
@given(record=drawn_selections())
def test_a_selection_comes_back_as_it_went_in(ledger: Ledger, record: SelectionRecord) -> None:
    record = replace(record, answer_id=uuid.uuid4().hex)
    ledger.put_selections([record])
    assert ledger.selections_of(record.answer_id) == [record]


@drawn
@given(record=drawn_comparisons())
def test_a_comparison_comes_back_as_it_went_in(ledger: Ledger, record: ComparisonRecord) -> None:
    record = replace(record, comparison_id=uuid.uuid4().hex)
    ledger.put_comparisons([record])
    found = ledger.comparisons(record.created_s, record.created_s + 1e-6 * (1 + record.created_s))
    assert record in found


def test_a_batch_that_is_written_twice_is_there_once(ledger: Ledger) -> None:
    first, second, third = (selection(name) for name in ("a", "b", "c"))
    ledger.put_selections([first, second])
    ledger.put_selections([second, third])
    ledger.put_comparisons([comparison("x")])
    ledger.put_comparisons([comparison("x"), comparison("y")])

    assert answers_after(ledger) == ["a", "b", "c"]
    assert len(ledger.comparisons(0.0, NOW_S * 2)) == 2


def test_one_answer_has_one_row_a_video(ledger: Ledger) -> None:
    ledger.put_selections([selection(video_id="v1"), selection(video_id="v2")])
    assert [row.video_id for row in ledger.selections_of("answer-1")] == ["v1", "v2"]


def test_text_that_no_database_holds_is_replaced_and_costs_no_row(ledger: Ledger) -> None:
    shadow = side("bolt", failure_message="a\0b\ud800c")
    ledger.put_comparisons([comparison(question="why\0\udfff?", shadow=shadow)])
    [found] = ledger.comparisons(0.0, NOW_S * 2)
    assert found.question == "why\ufffd\ufffd?"
    assert found.shadow.failure_message == "a\0b\ud800c"


def test_a_number_that_is_none_becomes_null_inside_of_json(ledger: Ledger) -> None:
    ledger.put_selections([selection(sampler_options={"a": [float("nan"), float("inf"), 1.5]})])
    [row] = ledger.selections_of("answer-1")
    assert row.sampler_options == {"a": [None, None, 1.5]}


def test_a_record_that_no_table_takes_is_refused_and_nothing_of_its_batch_stays(
    ledger: Ledger,
) -> None:
    with pytest.raises(RecordRefusedError):
        ledger.put_selections([selection("a"), selection("b", state="running")])
    assert answers_after(ledger) == []


@pytest.mark.parametrize(
    "changes", [{"budget": 2**80}, {"sampler_options": {"x": object()}}], ids=["number", "json"]
)
def test_a_value_of_the_wrong_kind_is_a_refusal_not_an_outage(
    ledger: Ledger, changes: dict[str, object]
) -> None:
    with pytest.raises(RecordRefusedError):
        ledger.put_selections([selection("a", **changes)])


# Exposures


def test_exposures_are_those_that_the_rule_dealt_with_this_salt(ledger: Ledger) -> None:
    ledger.put_selections(
        [
            selection("dealt"),
            selection("overridden", is_exposure=False),
            selection("other epoch", salt="salt-2"),
            selection("nobody", user_hash=None),
        ]
    )
    assert answers_after(ledger) == ["dealt"]
    assert answers_after(ledger, salt="salt-2") == ["other epoch"]


def test_exposures_go_on_after_the_last_one_that_was_seen(ledger: Ledger) -> None:
    ledger.put_selections([selection(str(number)) for number in range(5)])
    first = ledger.exposures_after(0, salt=SALT, limit=2)
    assert [row.answer_id for row in first] == ["0", "1"]
    assert answers_after(ledger, first[-1].sequence) == ["2", "3", "4"]


def test_a_sequence_number_is_never_given_twice(ledger: Ledger) -> None:
    ledger.put_selections([selection("a"), selection("b")])
    seen = ledger.exposures_after(0, salt=SALT)[-1].sequence
    ledger.delete_user("user-1")
    ledger.put_selections([selection("c")])
    assert answers_after(ledger, seen) == ["c"]


def test_an_exposure_holds_what_guards_need(ledger: Ledger) -> None:
    record = selection(
        decided_sampler_id="bolt",
        sampler_id="uniform",
        fallback_kind="raised",
        state="failed",
        error="urn:framegate:problem:llm-unavailable",
    )
    ledger.put_selections([record])
    [exposure] = ledger.exposures_after(0, salt=SALT)
    shared = {field.name for field in dataclasses.fields(exposure)} & {
        field.name for field in dataclasses.fields(record)
    }
    assert {name: getattr(exposure, name) for name in shared} == {
        name: getattr(record, name) for name in shared
    }
    assert len(shared) == 18
    assert (exposure.vision_tokens, exposure.selection_s, exposure.total_s) == (4, 0.01, 0.5)
    assert exposure.ended_s == record.created_s + 0.5
    assert exposure.feedback is None


# Feedback


def test_the_last_feedback_counts(ledger: Ledger) -> None:
    ledger.put_selections([selection("a"), selection("b")])
    ledger.put_feedback(feedback("a"))
    ledger.put_feedback(feedback("a", verdict=FeedbackVerdict.BAD, reason="no dog\0"))

    verdicts = [row.feedback for row in ledger.exposures_after(0, salt=SALT)]
    assert verdicts == [FeedbackVerdict.BAD, None]
    found = ledger.feedback_of("a")
    assert found is not None
    assert (found.verdict, found.reason) == (FeedbackVerdict.BAD, "no dog\ufffd")
    assert ledger.feedback_of("b") is None


def test_feedback_that_comes_or_changes_later_is_seen_by_who_goes_on(ledger: Ledger) -> None:
    ledger.put_selections([selection("a"), selection("b"), selection("c", salt="salt-2")])
    for answer_id in ("a", "b", "c", "unknown"):
        ledger.put_feedback(feedback(answer_id))
    seen = ledger.feedback_after(0, salt=SALT)
    assert [row.answer_id for row in seen] == ["a", "b"]

    ledger.put_feedback(feedback("a", verdict=FeedbackVerdict.BAD))
    [change] = ledger.feedback_after(seen[-1].sequence, salt=SALT)
    assert (change.answer_id, change.verdict) == ("a", FeedbackVerdict.BAD)


# Comparisons


def test_the_newest_comparisons_of_a_time_come_oldest_first(ledger: Ledger) -> None:
    ledger.put_comparisons(
        [comparison(str(number), created_s=NOW_S + number) for number in range(5)]
    )
    found = ledger.comparisons(NOW_S + 1, NOW_S + 4, limit=2)
    assert [record.comparison_id for record in found] == ["2", "3"]


def test_comparisons_are_found_by_the_sampler_in_shadow(ledger: Ledger) -> None:
    ledger.put_comparisons([comparison("x"), comparison("y", shadow=side("aks"))])
    found = ledger.comparisons(0.0, NOW_S * 2, shadow_sampler="aks")
    assert [record.comparison_id for record in found] == ["y"]


# Deletion


def test_a_deleted_user_leaves_nothing_and_others_stay(ledger: Ledger) -> None:
    other = {"user_hash": "user-2"}
    ledger.put_selections([selection("a"), selection("b", **other)])
    ledger.put_comparisons([comparison("x"), comparison("y", answer_id="b", **other)])
    ledger.put_feedback(feedback("a"))
    ledger.put_feedback(feedback("b"))
    assert ledger.answers_of_user("user-1") == ["a"]

    gone = ledger.delete_user("user-1")

    assert gone == RecordCounts(selections=1, comparisons=1, feedback=1)
    assert answers_after(ledger) == ["b"]
    assert [row.answer_id for row in ledger.comparisons(0.0, NOW_S * 2)] == ["b"]
    assert ledger.feedback_of("a") is None
    assert ledger.feedback_of("b") is not None


def test_a_deleted_video_leaves_nothing_of_its_tenant_and_other_tenants_stay(
    ledger: Ledger,
) -> None:
    owners: dict[str, dict[str, object]] = {
        "a": {},
        "b": {"video_id": "video-2"},
        "c": {"tenant": "other"},
    }
    for answer_id, changes in owners.items():
        ledger.put_selections([selection(answer_id, **changes)])
        ledger.put_comparisons([comparison(answer_id, answer_id=answer_id, **changes)])
        ledger.put_feedback(feedback(answer_id, **changes))

    gone = ledger.delete_video("default", "video-1")

    assert gone == RecordCounts(selections=1, comparisons=1, feedback=1)
    assert answers_after(ledger) == ["b", "c"]
    assert [row.answer_id for row in ledger.comparisons(0.0, NOW_S * 2)] == ["b", "c"]
    assert ledger.feedback_of("a") is None


@pytest.mark.parametrize("subject", ["user", "video"])
def test_what_was_asked_before_a_deletion_does_not_come_back_after_it(
    ledger: Ledger, subject: str
) -> None:
    if subject == "user":
        ledger.delete_user("user-1")
    else:
        ledger.delete_video("default", "video-1")
    before, after = {"created_s": NOW_S - 1.0}, {"created_s": NOW_S + 1.0}

    ledger.put_selections([selection("late", **before), selection("new", **after)])
    ledger.put_comparisons([comparison("late", **before), comparison("new", **after)])

    assert answers_after(ledger) == ["new"]
    assert [row.comparison_id for row in ledger.comparisons(0.0, NOW_S * 2)] == ["new"]


def test_feedback_on_a_video_that_was_just_deleted_stays_out(ledger: Ledger) -> None:
    ledger.delete_video("default", "video-1")
    ledger.put_feedback(feedback(created_s=NOW_S - 1.0))
    assert ledger.feedback_of("answer-1") is None


def test_rows_of_an_age_go_a_few_at_a_time_oldest_first(ledger: Ledger) -> None:
    ages = [{"created_s": NOW_S + number} for number in range(5)]
    ledger.put_selections([selection(str(n), **age) for n, age in enumerate(ages)])
    ledger.put_comparisons([comparison(str(n), **age) for n, age in enumerate(ages)])
    for number, age in enumerate(ages):
        ledger.put_feedback(feedback(str(number), **age))

    assert ledger.delete_older(NOW_S + 3, 2) == RecordCounts(
        selections=2, comparisons=2, feedback=2
    )
    assert answers_after(ledger) == ["2", "3", "4"]
    assert ledger.delete_older(NOW_S + 3, 2).total == 3
    assert ledger.delete_older(NOW_S + 3, 2).total == 0
    assert answers_after(ledger) == ["3", "4"]


# Addresses


@pytest.mark.parametrize(
    "url", ["mysql://host/db", "not an address", "sqlite://", "postgresql+asyncpg://host/db"]
)
def test_an_address_of_no_database_that_is_supported_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"FRAMEGATE_LEDGER_URL .* postgresql://user:password@"):
        Ledger(url)


def test_the_name_of_a_ledger_holds_no_password() -> None:
    url = URL.create("postgresql", "ana", "secret", "127.0.0.1", 1, "ledger")
    ledger = Ledger(url)
    assert "ana" in ledger.name
    assert "secret" not in ledger.name
    assert ledger.start_problem is not None
    assert "secret" not in ledger.start_problem
    ledger.close()


# Several gateways


def test_a_reader_that_goes_on_misses_no_row_while_several_gateways_write(ledger_url: str) -> None:
    gateways = [Ledger(ledger_url) for _ in range(3)]

    def write(name: str, gateway: Ledger) -> None:
        for number in range(15):
            batch = [f"{name}-{number}-{row}" for row in range(1 + number % 4)]
            gateway.put_selections([selection(answer_id) for answer_id in batch])

    threads = [
        threading.Thread(target=write, args=(str(name), gateway))
        for name, gateway in enumerate(gateways)
    ]
    reader, seen = Ledger(ledger_url), list[str]()
    sequence, is_over = 0, False
    for thread in threads:
        thread.start()
    while not is_over:
        is_over = not any(thread.is_alive() for thread in threads)
        for exposure in reader.exposures_after(sequence, salt=SALT):
            seen.append(exposure.answer_id)
            sequence = exposure.sequence
    for opened in (*gateways, reader):
        opened.close()
    assert len(seen) == len(set(seen)) == 3 * sum(1 + number % 4 for number in range(15))
