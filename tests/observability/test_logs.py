from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observability.logs import (
    MAX_ITEMS,
    MAX_LINE_CHARS,
    MAX_TEXT_CHARS,
    JsonFormatter,
    TextFormatter,
    configure_logging,
    log_event,
)
from observability.names import Event, Stage
from observability.repeats import RepeatFilter, RepeatLimiter
from observability.stages import current_trace_id, stage
from tests.observability.conftest import World

TOUCHED = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "httpx", "openfeature")


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    loggers = [logging.getLogger(), *map(logging.getLogger, TOUCHED)]
    before = [(one, [*one.handlers], one.level, one.propagate) for one in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def _line(
    fields: dict[str, object], message: str = "", formatter: logging.Formatter | None = None
) -> str:
    """What one event looks like on stderr."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter or JsonFormatter())
    logger = logging.Logger("app.pipeline")
    logger.addHandler(handler)
    log_event(logger, Event.ANSWER_FINISHED, message, exc_info=None, level=logging.INFO, **fields)
    return stream.getvalue()


def _parsed(fields: dict[str, object], message: str = "") -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(_line(fields, message))
    return parsed


def test_a_line_is_json_with_time_level_logger_event_and_fields() -> None:
    line = _parsed({"answer_id": "a1", "seconds": [0.5, 2.0]}, "done")
    age = datetime.now(UTC) - datetime.fromisoformat(line.pop("ts"))
    assert 0 <= age.total_seconds() < 60
    assert line == {
        "level": "info",
        "logger": "app.pipeline",
        "event": "answer.finished",
        "message": "done",
        "answer_id": "a1",
        "seconds": [0.5, 2.0],
    }


def test_a_line_carries_the_trace_it_belongs_to(world: World) -> None:
    assert "trace_id" not in _parsed({})
    with world.telemetry.activated(), stage(Stage.GENERATE):
        here, line = current_trace_id(), _parsed({})
    span_context = world.spans["generate"].context
    assert span_context is not None
    assert line["trace_id"] == here
    assert line["span_id"] == f"{span_context.span_id:016x}"


def test_a_field_never_replaces_a_member_of_the_line() -> None:
    line = _parsed({"ts": "never", "trace_id": "mine"})
    assert line["ts"] != "never"
    assert (line["field_ts"], line["field_trace_id"]) == ("never", "mine")


def test_long_lists_and_texts_are_cut_and_the_line_says_so() -> None:
    counts = {f"k{i}": i for i in range(300)}
    fields: dict[str, object] = {"indices": list(range(1000)), "why": "x" * 9000, "counts": counts}
    line = _parsed(fields)
    assert len(line["counts"]) == MAX_ITEMS
    assert line["indices"] == list(range(MAX_ITEMS))
    assert line["why"] == "x" * MAX_TEXT_CHARS
    assert line["cut"] == {"indices": 1000, "why": 9000, "counts": 300}


def test_many_long_fields_are_bounded_together() -> None:
    fields: dict[str, object] = {f"text_{i}": "x" * 4000 for i in range(100)}
    fields["deep"] = [["y" * 100] * 300] * 300
    assert len(_line(fields)) < 3 * MAX_LINE_CHARS


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=20,
)


@settings(max_examples=50, deadline=None)
@given(fields=st.dictionaries(st.text(), VALUES, max_size=5), message=st.text())
def test_any_fields_make_one_line_of_strict_json(fields: dict[str, object], message: str) -> None:
    for taken in ("level", "exc_info"):
        fields.pop(taken, None)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    text = _line(fields, message)
    assert text.count("\n") == 1
    assert text.isascii()
    json.loads(text, parse_constant=refuse)


def test_an_exception_is_one_member_of_the_line() -> None:
    formatter = JsonFormatter()
    with pytest.raises(ValueError, match="bad") as caught:
        raise ValueError("bad")
    stack = (caught.type, caught.value, caught.tb)
    record = logging.LogRecord("app", logging.ERROR, "f", 1, "failed", None, stack)
    line = json.loads(formatter.format(record))
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: bad")
    assert line["event"] == "log"


def test_a_long_traceback_keeps_what_was_raised() -> None:
    formatter = JsonFormatter()
    with pytest.raises(ValueError, match="bad") as caught:
        raise ValueError("x" * 9000 + "bad")
    stack = (caught.type, caught.value, caught.tb)
    record = logging.LogRecord("app", logging.ERROR, "f", 1, "failed", None, stack)
    line = json.loads(formatter.format(record))
    assert len(line["exception"]) == MAX_TEXT_CHARS
    assert line["exception"].endswith("xbad")
    assert line["event"] == "log"


def test_text_lines_are_for_readers_and_cannot_be_forged() -> None:
    text = _line({"answer_id": "a1"}, "one\ntwo \x1b[31m", TextFormatter())
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert 'info answer.finished one two  [31m answer_id="a1"' in text


def test_lines_below_the_level_are_not_built() -> None:
    logger = logging.Logger("quiet", logging.ERROR)
    logger.addHandler(logging.StreamHandler(stream := io.StringIO()))
    log_event(logger, Event.SERVICE_STARTED)
    assert stream.getvalue() == ""


def test_configured_logging_takes_uvicorns_lines_too(capsys: pytest.CaptureFixture[str]) -> None:
    access = logging.getLogger("uvicorn.access")
    access.addHandler(logging.StreamHandler())
    access.propagate = False
    configure_logging("info")
    access.info('%s - "%s %s HTTP/%s" %d', "127.0.0.1:1", "GET", "/healthz", "1.1", 200)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert json.loads(lines[0])["message"] == '127.0.0.1:1 - "GET /healthz HTTP/1.1" 200'


def test_configuring_again_replaces_the_handler_and_keeps_foreign_ones() -> None:
    foreign = logging.NullHandler()
    logging.getLogger().addHandler(foreign)
    first, second = io.StringIO(), io.StringIO()
    configure_logging("info", stream=first)
    configure_logging("warning", as_json=False, stream=second)
    logging.getLogger("app").warning("hello")
    logging.getLogger("app").info("not this")
    assert foreign in logging.getLogger().handlers
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_talkative_libraries_are_quiet_but_not_mute() -> None:
    configure_logging("debug", stream=(stream := io.StringIO()))
    logging.getLogger("httpx").info("HTTP Request: POST")
    logging.getLogger("openfeature").error("a traceback for each failing evaluation")
    assert stream.getvalue() == ""
    logging.getLogger("httpx").warning("slow")
    assert stream.getvalue().count("\n") == 1


def test_filters_judge_the_lines_on_stderr() -> None:
    stream = io.StringIO()
    repeats = RepeatFilter("opentelemetry", RepeatLimiter())
    configure_logging("info", stream=stream, filters=[repeats])
    for _ in range(3):
        logging.getLogger("opentelemetry.exporter").warning("the collector is away")
    assert stream.getvalue().count("\n") == 1
