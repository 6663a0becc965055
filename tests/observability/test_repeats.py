from __future__ import annotations

import logging

import pytest

from observability.names import Event
from observability.repeats import MAX_KEYS, AlarmLog, RepeatFilter, RepeatLimiter


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_the_first_alarm_is_logged_at_once_then_one_a_minute_with_the_number_held_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    alarms = AlarmLog(logging.getLogger("app.flags"), RepeatLimiter(clock_s=clock))
    logged = []
    for _ in range(7):
        logged.append(alarms.raise_alarm(Event.FLAGS_ALARM, "empty", "flags are empty", path="f"))
        clock.now_s += 20
    assert logged == [True, False, False, True, False, False, True]
    fields = [record.__dict__["framegate_fields"] for record in caplog.records]
    assert [line["num_repeats"] for line in fields] == [0, 2, 2]
    assert caplog.records[0].levelno == logging.ERROR


def test_other_alarms_are_not_held_back(caplog: pytest.LogCaptureFixture) -> None:
    alarms = AlarmLog(logging.getLogger("app.flags"), RepeatLimiter(clock_s=Clock()))
    assert alarms.raise_alarm(Event.FLAGS_ALARM, "empty", "flags are empty")
    assert alarms.raise_alarm(Event.FLAGS_ALARM, "weights", "a weight is no int")
    assert alarms.raise_alarm(Event.PROCESS_DIED, "empty", "died", exc_info=OSError("x"))
    assert len(caplog.records) == 3


def test_the_limiter_remembers_the_last_keys_up_to_its_bound() -> None:
    limiter = RepeatLimiter(clock_s=Clock())
    assert {limiter.admit(key) for key in range(MAX_KEYS + 1)} == {0}
    assert limiter.admit(MAX_KEYS) is None
    assert limiter.admit(0) == 0


def test_a_handler_filter_holds_back_repeats_of_one_library_alone() -> None:
    repeats = RepeatFilter("opentelemetry", RepeatLimiter(clock_s=Clock()))
    lost = logging.LogRecord("opentelemetry.exporter", logging.ERROR, "f", 1, "lost %s", (1,), None)
    ours = logging.LogRecord("app.pipeline", logging.ERROR, "f", 1, "lost", None, None)
    assert [repeats.filter(lost), repeats.filter(lost)] == [True, False]
    assert [repeats.filter(ours), repeats.filter(ours)] == [True, True]
