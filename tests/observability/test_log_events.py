from __future__ import annotations

import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observability.log_events import (
    FlagEvaluation,
    SelectionTrace,
    hash_user_id,
    log_flag_evaluation,
    log_selection,
)

LOGGER = logging.getLogger("tests.log_events")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = record.__dict__["framegate_fields"]
    return fields


@settings(deadline=None)
@given(salt=st.text(), tenant=st.text(), user_id=st.text(st.characters()))
def test_a_user_hash_is_hex_and_the_same_each_time(salt: str, tenant: str, user_id: str) -> None:
    hashed = hash_user_id(salt, tenant, user_id)
    assert re.fullmatch(r"[0-9a-f]{32}", hashed)
    assert hash_user_id(salt, tenant, user_id) == hashed


def test_salt_tenant_and_user_each_change_the_hash() -> None:
    asked = [("s", "a", "b/c"), ("s", "a/b", "c"), ("s", "a", "b"), ("t", "a", "b/c"), ("", "", "")]
    assert len({hash_user_id(*one) for one in asked}) == len(asked)


def test_a_user_id_of_broken_text_has_a_hash_too() -> None:
    assert hash_user_id("s", "t", "\ud800") != hash_user_id("s", "t", "\ud801")


def test_a_flag_evaluation_has_the_names_of_the_convention(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    evaluation = FlagEvaluation(
        key="video.sampler",
        value="aks",
        reason="SPLIT",
        variant="candidate",
        provider="flagd-file",
        version="v3",
        set_id="framegate",
        user_hash="ab" * 16,
        salt="s1",
        bucketing_engine="openfeature-flagd-core 2.0.0",
    )
    log_flag_evaluation(LOGGER, evaluation)
    record = caplog.records[0]
    assert record.__dict__["framegate_event"] == "feature_flag.evaluation"
    assert _fields(record) == {
        "feature_flag.key": "video.sampler",
        "feature_flag.result.value": "aks",
        "feature_flag.result.reason": "split",
        "feature_flag.result.variant": "candidate",
        "feature_flag.provider.name": "flagd-file",
        "feature_flag.version": "v3",
        "feature_flag.set.id": "framegate",
        "feature_flag.context.id": "ab" * 16,
        "framegate.flag.salt": "s1",
        "framegate.flag.bucketing_engine": "openfeature-flagd-core 2.0.0",
    }


def test_a_failed_flag_evaluation_is_a_warning_with_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = FlagEvaluation(key="video.sampler", value="uniform", reason="ERROR", error="no flags")
    log_flag_evaluation(LOGGER, failed)
    assert caplog.records[0].levelno == logging.WARNING
    assert _fields(caplog.records[0])["feature_flag.error.message"] == "no flags"


def test_a_selection_logs_which_frames_were_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    selection = SelectionTrace(
        answer_id="a1",
        video_id="f" * 64,
        sampler_id="aks",
        sampler_version="1",
        reason="SPLIT",
        budget=2,
        limited_by="duration",
        indices=[3, 40],
        seconds=[0.12, 1.60001],
        num_candidates=40,
        fallback="deadline",
    )
    log_selection(LOGGER, selection)
    fields = _fields(caplog.records[0])
    assert caplog.records[0].__dict__["framegate_event"] == "answer.selected"
    assert fields["indices"] == [3, 40]
    assert fields["seconds"] == [0.12, 1.6]
    assert (fields["sampler"], fields["fallback"]) == ("aks", "deadline")
    assert (fields["num_frames"], fields["num_candidates"]) == (2, 40)
