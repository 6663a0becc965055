"""Log lines: one JSON object a line on stderr, with the trace they belong to; the same over OTLP.

Lines are bounded: long texts and lists are cut, and `cut` names what was cut and how long it was.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TextIO

from opentelemetry import trace
from opentelemetry._logs import Logger as OtelLogger
from opentelemetry._logs import SeverityNumber

from observability.names import Event

MAX_ITEMS = 256
"""Of a list or mapping in a field: the index trace of the largest budget fits."""
MAX_TEXT_CHARS = 4_000
MAX_LINE_VALUES = 2_000
MAX_LINE_CHARS = 16_000

_EVENT = "framegate_event"
_FIELDS = "framegate_fields"
_TRACE = "framegate_trace"
_BASE_KEYS = frozenset(
    {"ts", "level", "logger", "event", "message", "trace_id", "span_id", "exception", "cut"}
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
_CHATTY = ("alembic", "httpcore", "httpx", "PIL", "python_multipart", "urllib3", "watchfiles")
# OpenFeature logs a whole traceback for each failing evaluation; the decision carries its reason.
_SILENT = ("openfeature",)
# A line about a failed export must not cause the next export.
_EXPORTERS = ("opentelemetry", "urllib3", "requests")
_SEVERITIES = {
    logging.DEBUG: SeverityNumber.DEBUG,
    logging.INFO: SeverityNumber.INFO,
    logging.WARNING: SeverityNumber.WARN,
    logging.ERROR: SeverityNumber.ERROR,
    logging.CRITICAL: SeverityNumber.FATAL,
}

FieldValue = str | int | float | bool | None | list["FieldValue"] | dict[str, "FieldValue"]


def log_event(
    logger: logging.Logger,
    event: Event,
    message: str = "",
    /,
    *,
    level: int = logging.INFO,
    exc_info: BaseException | str | None = None,
    **fields: object,
) -> None:
    """Log one event; `fields` become members of the JSON line (never a question's text).

    `exc_info`: what was raised, or the text of its traceback where it stayed in another process.
    """
    if logger.isEnabledFor(level):
        raised, trace = (None, exc_info) if isinstance(exc_info, str) else (exc_info, None)
        extra = {_EVENT: str(event), _FIELDS: fields, _TRACE: trace}
        logger.log(level, "%s", message or event, exc_info=raised, extra=extra)


def _is_finite(number: float) -> bool:
    """Also of ints that no float can hold, where `math.isfinite` overflows."""
    return number - number == 0


class _Cutter:
    """Makes values fit for one line: bounded in texts, lists and in total, and valid JSON."""

    def __init__(self) -> None:
        self.cut: dict[str, FieldValue] = {}
        self._values_left = MAX_LINE_VALUES
        self._chars_left = MAX_LINE_CHARS

    def fit_fields(self, fields: Mapping[str, object]) -> dict[str, FieldValue]:
        return self._fit_mapping(fields, "")

    def fit(self, value: object, path: str) -> FieldValue:
        self._values_left -= 1
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if _is_finite(value) else str(value)
        if isinstance(value, Mapping):
            return self._fit_mapping(value, path)
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return self._fit_sequence(value, path)
        return self._fit_text(str(value), path)

    def _fit_text(self, text: str, path: str) -> str:
        kept = text[: max(0, min(MAX_TEXT_CHARS, self._chars_left))]
        self._chars_left -= len(kept)
        if len(kept) < len(text):
            self.cut[path] = len(text)
        return kept

    def fit_end(self, text: str, path: str) -> str:
        """The end of a text: a traceback says last what was raised."""
        num_kept = max(0, min(len(text), MAX_TEXT_CHARS, self._chars_left))
        self._chars_left -= num_kept
        if num_kept < len(text):
            self.cut[path] = len(text)
        return text[len(text) - num_kept :]

    def _fit_sequence(self, values: Sequence[object], path: str) -> list[FieldValue]:
        head = values[: max(0, min(MAX_ITEMS, self._values_left))]
        # The way of frame indices and seconds, in every answer: half the time of one by one.
        numbers = [v for v in head if isinstance(v, int | float) and _is_finite(v)]
        kept: list[FieldValue]
        if len(numbers) == len(head):
            self._values_left -= len(head)
            kept = [*numbers]
        else:
            kept = [self.fit(value, f"{path}[]") for value in head]
        if len(kept) < len(values):
            self.cut[path] = len(values)
        return kept

    def _fit_mapping(self, values: Mapping[str, object], path: str) -> dict[str, FieldValue]:
        kept: dict[str, FieldValue] = {}
        for key, value in values.items():
            if self._values_left <= 0 or len(kept) == MAX_ITEMS:
                self.cut[path] = len(values)
                break
            name = str(key)[:MAX_TEXT_CHARS]
            kept[name] = self.fit(value, f"{path}.{name}" if path else name)
        return kept


def _line_of(record: logging.LogRecord) -> dict[str, FieldValue]:
    """The members of a record's JSON line, in the order they are read."""
    cutter = _Cutter()
    line: dict[str, FieldValue] = {
        "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": getattr(record, _EVENT, str(Event.LOG)),
        "message": cutter.fit(record.getMessage(), "message"),
    }
    span_context = trace.get_current_span().get_span_context()
    if span_context.is_valid:
        line["trace_id"] = trace.format_trace_id(span_context.trace_id)
        line["span_id"] = trace.format_span_id(span_context.span_id)
    for key, value in cutter.fit_fields(getattr(record, _FIELDS, {})).items():
        line[f"field_{key}" if key in _BASE_KEYS else key] = value
    stack: str | None = getattr(record, _TRACE, None)
    if record.exc_info:
        stack = logging.Formatter().formatException(record.exc_info)
    if stack:
        line["exception"] = cutter.fit_end(stack, "exception")
    if cutter.cut:
        line["cut"] = cutter.cut
    return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, ASCII only: no character of a value can break the line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_line_of(record), separators=(",", ":"), allow_nan=False)


class TextFormatter(logging.Formatter):
    """The same members for a reader at a terminal: `time level event message key=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        line = _line_of(record)
        exception = line.pop("exception", None)
        head = [line.pop(key) for key in ("ts", "level", "event", "message")]
        line.pop("logger")
        pairs = [f"{key}={json.dumps(value)}" for key, value in line.items()]
        text = _CONTROL.sub(" ", " ".join([*map(str, head), *pairs]))
        return f"{text}\n{exception}" if exception else text


class OtlpLogHandler(logging.Handler):
    """Sends log records to an OpenTelemetry logger; events get their `event_name`."""

    def __init__(self, logger: OtelLogger) -> None:
        super().__init__()
        self._otel_logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_EXPORTERS):
            return
        line = _line_of(record)
        for key in ("ts", "level", "trace_id", "span_id"):
            line.pop(key, None)
        body = line.pop("message")
        self._otel_logger.emit(
            timestamp=int(record.created * 1e9),
            severity_number=_SEVERITIES.get(record.levelno, SeverityNumber.UNSPECIFIED),
            severity_text=record.levelname,
            body=body,
            event_name=str(line.pop("event")),
            attributes=line,
        )


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Marks the handler that `configure_logging` replaces when it is called again."""


def configure_logging(
    level: str,
    *,
    as_json: bool = True,
    stream: TextIO | None = None,
    filters: Sequence[logging.Filter] = (),
    handlers: Sequence[logging.Handler] = (),
) -> None:
    """Send every log line of the process to stderr in one format, uvicorn's lines included.

    Call it once, in the process's main; start uvicorn with `log_config=None`. `level` is one of
    debug, info, warning, error. `handlers` get every record too (`Telemetry.log_handler`),
    `filters` judge the lines on stderr.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    stderr = _StderrHandler(stream or sys.stderr)
    stderr.setFormatter(JsonFormatter() if as_json else TextFormatter())
    for line_filter in filters:
        stderr.addFilter(line_filter)
    root = logging.getLogger()
    for old in [*root.handlers]:
        if isinstance(old, _StderrHandler | OtlpLogHandler):
            root.removeHandler(old)
    for handler in (stderr, *handlers):
        root.addHandler(handler)
    root.setLevel(threshold)
    _tame(threshold)


def _tame(threshold: int) -> None:
    """Let uvicorn's loggers use the root's handlers, and keep talkative libraries quiet."""
    for name in _UVICORN:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
