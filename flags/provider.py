"""The flag file as an OpenFeature provider that obeys the file at the very next decision.

flagd's own file mode polls and reloads only when the mtime grows, so that an older file put back is
never seen. Here the file is `stat`ed before each decision, read again when it changed, checked as a
whole, and adopted only if it has no error. Otherwise the last good flags stay in force and an alarm
stands until the file is good again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from openfeature.contrib.tools.flagd.core import FlagdCore
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ProviderNotReadyError
from openfeature.flag_evaluation import FlagResolutionDetails, FlagValueType
from openfeature.provider import AbstractProvider, Metadata

from flags.check import check_flag_text, parse_flag_text
from flags.findings import Finding, errors_of
from flags.keys import ALL_KEYS, Reason
from flags.stamped_file import StampedFile, UnreadableFileError
from flags.targeting import Json, find_splits, replace_splits

DEFAULT_FLAGS_PATH: Final = Path(__file__).with_name("default.flagd.json")
MAX_FLAG_FILE_BYTES: Final = 1_000_000
PROVIDER_NAME: Final = "framegate-file"

VERSION_METADATA: Final = "framegate.version"
"""Added to the metadata of every resolution: the file's own version and a digest of its content."""
SALT_METADATA: Final = "framegate.salt"
FLAG_SET_METADATA: Final = "flagSetId"
"""flagd's own name for it."""

_DEALT_SUFFIX: Final = "\x00dealt"
"""Marks, inside the engine, the variants that a user was dealt to; a checked file cannot contain
it."""

_T = TypeVar("_T")


class AlarmKind(StrEnum):
    MISSING = "missing"
    UNREADABLE = "unreadable"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Alarm:
    """The flag file cannot be obeyed. `findings` says what is wrong with its content, if it has
    any."""

    kind: AlarmKind
    path: str
    detail: str
    findings: tuple[Finding, ...]
    is_serving_baseline: bool
    """True: no good flags were ever read. False: the last good ones are in force."""


@dataclass(frozen=True, slots=True)
class FlagFileConfig:
    """A flagd-format file. From the deciding thread, `on_alarm` is called once for each new alarm,
    `on_adopted` with the content of the file once each time that it comes into force."""

    path: Path
    known_samplers: frozenset[str]
    on_alarm: Callable[[Alarm], None]
    on_adopted: Callable[[bytes], None] | None = None
    max_bytes: int = MAX_FLAG_FILE_BYTES
    clock_ns: Callable[[], int] = time.time_ns


@dataclass(frozen=True, slots=True)
class _Adopted:
    """Framegate's own flags in force. Whoever has no targeting key is never dealt: the second
    engine has no splits."""

    version: str
    with_key: FlagdCore
    without_key: FlagdCore


class FlagFile(AbstractProvider):
    """An OpenFeature provider over one flag file. Shared by threads."""

    def __init__(self, config: FlagFileConfig) -> None:
        super().__init__()
        self._config = config
        self._file = StampedFile(config.path, max_bytes=config.max_bytes, clock_ns=config.clock_ns)
        self._lock = threading.Lock()
        self._content: bytes | None = None
        self._adopted: _Adopted | None = None
        self._alarm: Alarm | None = None
        self.refresh()

    @property
    def path(self) -> Path:
        return self._config.path

    @property
    def alarm(self) -> Alarm | None:
        """What is wrong with the file, as of the last look at it."""
        return self._alarm

    @property
    def version(self) -> str | None:
        """`version@digest` of the flags in force; None while there are none."""
        return self._adopted.version if self._adopted else None

    def refresh(self) -> None:
        """Look at the file; adopt it if it changed and is good. Every decision does this first."""
        if not self._file.has_changed():
            return
        with self._lock:
            before, adopted_before = self._alarm, self._adopted
            if self._file.has_changed():
                self._alarm = self._load()
            alarm, content = self._alarm, self._content
            is_newly_adopted = self._adopted is not adopted_before
        if alarm is not None and alarm != before:
            self._config.on_alarm(alarm)
        if is_newly_adopted and content is not None and self._config.on_adopted is not None:
            self._config.on_adopted(content)

    def _load(self) -> Alarm | None:
        known_content, self._content = self._content, None
        try:
            content = self._file.read()
        except UnreadableFileError as exc:
            return self._refusal(AlarmKind.UNREADABLE, str(exc))
        if content is None:
            return self._refusal(AlarmKind.MISSING, "there is no such file")
        self._content = content
        if content == known_content:
            return self._alarm
        if errors := errors_of(check_flag_text(content, self._config.known_samplers)):
            detail = f"{errors[0]} ({len(errors)} in all)"
            return self._refusal(AlarmKind.INVALID, detail, tuple(errors))
        self._adopted = _adopt(content)
        return None

    def _refusal(self, kind: AlarmKind, detail: str, findings: tuple[Finding, ...] = ()) -> Alarm:
        return Alarm(kind, str(self.path), detail, findings, self._adopted is None)

    def get_metadata(self) -> Metadata:
        return Metadata(name=PROVIDER_NAME)

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[bool]:
        core = self._core_for(evaluation_context)
        return _named(core.resolve_boolean_value(flag_key, default_value, evaluation_context))

    def resolve_string_details(
        self,
        flag_key: str,
        default_value: str,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[str]:
        core = self._core_for(evaluation_context)
        return _named(core.resolve_string_value(flag_key, default_value, evaluation_context))

    def resolve_integer_details(
        self,
        flag_key: str,
        default_value: int,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[int]:
        core = self._core_for(evaluation_context)
        return _named(core.resolve_integer_value(flag_key, default_value, evaluation_context))

    def resolve_float_details(
        self,
        flag_key: str,
        default_value: float,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[float]:
        core = self._core_for(evaluation_context)
        return _named(core.resolve_float_value(flag_key, default_value, evaluation_context))

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        core = self._core_for(evaluation_context)
        return _named(core.resolve_object_value(flag_key, default_value, evaluation_context))

    def _core_for(self, context: EvaluationContext | None) -> FlagdCore:
        self.refresh()
        adopted = self._adopted
        if adopted is None:
            detail = self._alarm.detail if self._alarm else "not read yet"
            raise ProviderNotReadyError(f"no good flags were read from {self.path.name}: {detail}")
        return adopted.with_key if context and context.targeting_key else adopted.without_key


def build_provider(config: FlagFileConfig) -> FlagFile:
    """The provider that `config` describes; each kind of provider has a configuration class of its
    own."""
    return FlagFile(config)


def _adopt(content: bytes) -> _Adopted:
    document = parse_flag_text(content)
    metadata = document.get("metadata", {})
    own = {key: flag for key, flag in document["flags"].items() if key in ALL_KEYS}
    digest = hashlib.sha256(content).hexdigest()[:8]
    version = f"{metadata.get('version', 'unversioned')}@{digest}"
    metadata = {**metadata, VERSION_METADATA: version}
    return _Adopted(
        version=version,
        with_key=_engine({key: _mark_dealt(flag) for key, flag in own.items()}, metadata),
        without_key=_engine({key: _deal_nobody(flag) for key, flag in own.items()}, metadata),
    )


def _engine(flags: dict[str, Json], metadata: dict[str, Json]) -> FlagdCore:
    core = FlagdCore()
    core.set_flags({"flags": flags, "metadata": metadata})
    return core


def _mark_dealt(flag: dict[str, Json]) -> dict[str, Json]:
    """The same flag, its split naming twins of the variants, so that a user who was dealt to an arm
    can be told from one whom a condition named. The names take no part in the dealing."""
    splits = find_splits(flag.get("targeting"))
    if not splits:
        return dict(flag)
    salt = splits[0].salt
    twins = {f"{name}{_DEALT_SUFFIX}": value for name, value in flag["variants"].items()}

    def name_twins(arguments: list[Json]) -> Json:
        *bucketing, candidate, control = arguments
        arms = [[f"{name}{_DEALT_SUFFIX}", weight] for name, weight in (candidate, control)]
        return {"fractional": [*bucketing, *arms]}

    return {
        **flag,
        "variants": flag["variants"] | twins,
        "targeting": replace_splits(flag["targeting"], name_twins),
        "metadata": flag.get("metadata", {}) | ({} if salt is None else {SALT_METADATA: salt}),
    }


def _deal_nobody(flag: dict[str, Json]) -> dict[str, Json]:
    if not flag.get("targeting"):
        return dict(flag)
    # `{"if": []}` is null in JSON logic: the default variant, with reason DEFAULT.
    return {**flag, "targeting": replace_splits(flag["targeting"], lambda _: {"if": []})}


def _named(details: FlagResolutionDetails[_T]) -> FlagResolutionDetails[_T]:
    if details.variant is not None and details.variant.endswith(_DEALT_SUFFIX):
        details.variant = details.variant.removesuffix(_DEALT_SUFFIX)
        details.reason = Reason.SPLIT
    return details
