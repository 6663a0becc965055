"""Which samplers exist: a table of the built-ins, and what outside packages and the operator add.

A built-in is one file and one line of `BUILT_IN`. An outside package declares an entry point in the
group `framegate.samplers`; an operator may name a class in one file on the path as `module:Class`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Protocol

from samplers.contract import (
    FrameScorer,
    InvalidOptionsError,
    Sampler,
    SamplerError,
    SamplerOptions,
)
from samplers.options import OptionField, option_fields, parse_options

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "uniform": "samplers.uniform:UniformSampler",
        "fps": "samplers.fps:FpsSampler",
        "shot": "samplers.shot:ShotSampler",
        "aks": "samplers.aks:AksSampler",
        "bolt": "samplers.bolt:BoltSampler",
        "adard-key": "samplers.adard_key:AdardKeySampler",
        "focus": "samplers.focus:FocusSampler",
        "m-llm": "samplers.m_llm:MLlmSampler",
        "gens": "samplers.gens:GensSampler",
        "frame-voyager-lite": "samplers.frame_voyager_lite:FrameVoyagerLiteSampler",
        "mdp3": "samplers.mdp3:Mdp3Sampler",
        "wfs": "samplers.wfs:WfsSampler",
        "gift": "samplers.gift:GiftSampler",
        "q-frame": "samplers.q_frame:QFrameSampler",
        "maxvol": "samplers.maxvol:MaxvolSampler",
        "topk": "samplers.topk:TopkSampler",
        "fused": "samplers.fused:FusedSampler",
        "auto": "samplers.auto:AutoSampler",
    }
)
ENTRY_POINT_GROUP = "framegate.samplers"
RESERVED_IDS = frozenset({"off"})
"""Flag values that mean something else than a sampler."""

_ID = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class UnknownSamplerError(SamplerError, LookupError):
    """No sampler of that id is available."""


class DuplicateSamplerError(SamplerError):
    """Two samplers claim the same id; the service must not start and guess which one is meant."""


class UnusableSamplerError(SamplerError):
    """A registered class does not declare what a sampler must declare."""


class SamplerClass(Protocol):
    """What the registry asks of a class before it lists it."""

    id: str
    version: str
    fills_budget: bool
    uses_query: bool
    Options: type[SamplerOptions]

    def __call__(
        self, options: Any, *, encoder: str, scorer: FrameScorer | None = None
    ) -> Sampler: ...


@dataclass(frozen=True, slots=True)
class SamplerEntry:
    """One available sampler and what may be said of it without building it."""

    id: str
    version: str
    sampler_class: SamplerClass
    target: str
    """`module:Class`, from which another process can load it again."""
    options: tuple[OptionField, ...]
    doc: str
    """First line of the class's docstring."""
    is_builtin: bool
    fills_budget: bool
    uses_query: bool

    def parse_options(self, options: Mapping[str, object]) -> SamplerOptions:
        """Raises `InvalidOptionsError` naming the unknown, mistyped or out-of-range option."""
        return parse_options(self.sampler_class.Options, options)

    def build(
        self,
        options: Mapping[str, object],
        *,
        encoder: str,
        scorer: FrameScorer | None = None,
    ) -> Sampler:
        """The sampler itself. Raises `InvalidOptionsError`."""
        return self.sampler_class(self.parse_options(options), encoder=encoder, scorer=scorer)


@dataclass(frozen=True, slots=True)
class Registry:
    """Every sampler of this installation. Frozen; made once by `load_registry`."""

    entries: Mapping[str, SamplerEntry]
    unavailable: Mapping[str, str]
    """Outside samplers that failed to load: entry-point name or `module:Class` -> error text."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Available ids, built-ins first in the order of the table, then outside ones by id."""
        return tuple(self.entries)

    def get(self, sampler_id: str) -> SamplerEntry:
        """Raises `UnknownSamplerError`, which names the ids that exist."""
        try:
            return self.entries[sampler_id]
        except KeyError:
            known = ", ".join(self.ids)
            raise UnknownSamplerError(f"no sampler {sampler_id!r}; known: {known}") from None

    def why_missing(self, sampler_id: str) -> str | None:
        """How an outside sampler failed to load that is, or may be, this one; None: nothing did.

        Of a `module:Class` that failed to load nobody knows the id.
        """
        if sampler_id in self.entries or sampler_id in RESERVED_IDS:
            return None
        if sampler_id in self.unavailable:
            return f"it failed to load: {self.unavailable[sampler_id]}"
        failed = [f"{n} ({error})" for n, error in self.unavailable.items() if ":" in n]
        return f"failed to load: {'; '.join(failed)}" if failed else None

    def build(
        self,
        sampler_id: str,
        options: Mapping[str, object],
        *,
        encoder: str,
        scorer: FrameScorer | None = None,
    ) -> Sampler:
        """Raises `UnknownSamplerError` or `InvalidOptionsError`."""
        return self.get(sampler_id).build(options, encoder=encoder, scorer=scorer)


def load_registry(extra_targets: Iterable[str] = ()) -> Registry:
    """Import every built-in, every installed entry point and the `module:Class` of `extra_targets`.

    Raises `DuplicateSamplerError` when an id is claimed twice. An outside sampler that cannot be
    loaded is listed in `unavailable` and stops nothing; a broken built-in raises.
    """
    entries: dict[str, SamplerEntry] = {}
    for sampler_id, target in BUILT_IN.items():
        entry = _load_entry(target, is_builtin=True)
        if entry.id != sampler_id:
            raise UnusableSamplerError(f"{target} calls itself {entry.id!r}, not {sampler_id!r}")
        entries[sampler_id] = entry
    outside, unavailable = _load_outside(extra_targets)
    for entry in outside:
        if entry.id in entries:
            raise DuplicateSamplerError(
                f"{entry.target} and {entries[entry.id].target} both claim the id {entry.id!r}"
            )
        entries[entry.id] = entry
    return Registry(MappingProxyType(entries), MappingProxyType(unavailable))


def _load_outside(extra_targets: Iterable[str]) -> tuple[list[SamplerEntry], dict[str, str]]:
    # Keyed by target: one class that is both installed and named by the operator is one sampler.
    names = {target: target for target in extra_targets}
    names |= {f"{p.module}:{p.attr}": p.name for p in entry_points(group=ENTRY_POINT_GROUP)}
    loaded: list[SamplerEntry] = []
    unavailable: dict[str, str] = {}
    for target, name in names.items():
        try:
            loaded.append(_load_entry(target, is_builtin=False))
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - importing foreign code may raise anything
            unavailable[name] = f"{type(exc).__name__}: {exc}"
    return sorted(loaded, key=lambda entry: entry.id), unavailable


def _load_entry(target: str, *, is_builtin: bool) -> SamplerEntry:
    module_name, _, class_name = target.partition(":")
    if not module_name or not class_name:
        raise UnusableSamplerError(f"{target!r} is not of the form module:Class")
    sampler_class: Any = getattr(importlib.import_module(module_name), class_name)
    return describe(sampler_class, target, is_builtin=is_builtin)


def describe(sampler_class: Any, target: str, *, is_builtin: bool = False) -> SamplerEntry:
    """What `sampler_class` says of itself; `target` is its `module:Class`.

    Raises `UnusableSamplerError` or `InvalidOptionsError` where it could not be served.
    """
    for name, kind in (("id", str), ("version", str), ("fills_budget", bool), ("uses_query", bool)):
        if not isinstance(getattr(sampler_class, name, None), kind):
            raise UnusableSamplerError(f"{target} must declare {name}: ClassVar[{kind.__name__}]")
    if not _ID.fullmatch(sampler_class.id) or sampler_class.id in RESERVED_IDS:
        raise UnusableSamplerError(
            f"{target} has the id {sampler_class.id!r}, which cannot be a flag value"
        )
    options_class = getattr(sampler_class, "Options", None)
    if not (isinstance(options_class, type) and issubclass(options_class, SamplerOptions)):
        raise UnusableSamplerError(f"{target} must declare Options, a subclass of SamplerOptions")
    if not callable(getattr(sampler_class, "select", None)):
        raise UnusableSamplerError(f"{target} has no method select")
    _check_constructor(sampler_class, target)
    described = option_fields(options_class)
    parse_options(options_class, {})
    return SamplerEntry(
        id=sampler_class.id,
        version=sampler_class.version,
        sampler_class=sampler_class,
        target=target,
        options=described,
        doc=_doc_of(sampler_class),
        is_builtin=is_builtin,
        fills_budget=sampler_class.fills_budget,
        uses_query=sampler_class.uses_query,
    )


def _check_constructor(sampler_class: Any, target: str) -> None:
    try:
        inspect.signature(sampler_class).bind(None, encoder="", scorer=None)
    except (TypeError, ValueError) as exc:
        raise UnusableSamplerError(
            f"{target} must be built as Class(options, encoder=..., scorer=...): {exc}"
        ) from exc


def _doc_of(sampler_class: Any) -> str:
    """First line of the docstring, which is inherited; empty where only `dataclass` wrote one."""
    doc = inspect.getdoc(sampler_class) or ""
    signatures = tuple(f"{cls.__name__}(" for cls in sampler_class.__mro__)
    return "" if doc.startswith(signatures) else doc.partition("\n")[0]


__all__ = [
    "BUILT_IN",
    "ENTRY_POINT_GROUP",
    "RESERVED_IDS",
    "DuplicateSamplerError",
    "InvalidOptionsError",
    "Registry",
    "SamplerClass",
    "SamplerEntry",
    "UnknownSamplerError",
    "UnusableSamplerError",
    "describe",
    "load_registry",
]
