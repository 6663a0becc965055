"""The samplers of this deployment with their configured options, variants included.

Built-ins are built here, once, unless they ask a model. Those, and outside samplers, which are
foreign code, are built and run in the selection processes only (`app/selection_processes.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Final

from app.sampler_variants import MAX_VARIANTS, base_id, is_variant, variant_options
from app.stores.library import DEFAULT_ENCODER
from flags.keys import BASELINE
from samplers.contract import InvalidOptionsError, Sampler, SamplerOptions
from samplers.registry import Registry, SamplerEntry, UnknownSamplerError, load_registry

OptionsById = Mapping[str, Mapping[str, object]]

NEEDS_SCORER: Final = (
    "it asks a vision-language model and needs FRAMEGATE_SCORER_URL and FRAMEGATE_SCORER_MODEL "
    "(docs/model-backed-samplers.md)"
)

_DIGEST_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class ConfiguredSampler:
    """A sampler id that may be served: a sampler with its options, or a variant of one."""

    id: str
    """`aks`, or `aks@t1=0.2` where it is a variant."""
    entry: SamplerEntry
    """The sampler; of a variant its base."""
    options: SamplerOptions
    version: str
    """See `SamplerTable.version`."""
    uses_scorer: bool
    """With these options it asks a model."""

    @property
    def option_values(self) -> dict[str, object]:
        """Every option and its value, defaults included."""
        return asdict(self.options)


class SamplerTable:
    """What may be selected by. Immutable; the samplers are shared by threads."""

    def __init__(
        self, registry: Registry, options: OptionsById, *, encoder: str, has_scorer: bool = False
    ) -> None:
        """`options`: by sampler id and by variant id (`app/sampler_variants.py`); `has_scorer`:
        there is a model to ask.

        Raises `InvalidOptionsError`, and `UnknownSamplerError` for options of no sampler.
        """
        self.registry = registry
        self.encoder = encoder
        self._has_scorer = has_scorer
        self._samplers = MappingProxyType(_configured(registry, options))
        self._builtins = MappingProxyType(
            {
                sampler_id: sampler.entry.build(sampler.option_values, encoder=encoder)
                for sampler_id, sampler in self._samplers.items()
                if sampler.entry.is_builtin and not sampler.uses_scorer
            }
        )

    @property
    def ids(self) -> frozenset[str]:
        """What may be served: samplers and variants."""
        return frozenset(self._samplers)

    @property
    def listed_ids(self) -> tuple[str, ...]:
        """The same in the registry's order, each sampler followed by its variants."""
        return tuple(self._samplers)

    @property
    def baseline(self) -> Sampler:
        return self._builtins[BASELINE]

    def get(self, sampler_id: str) -> ConfiguredSampler:
        """Raises `UnknownSamplerError`, which names the ids that exist."""
        try:
            return self._samplers[sampler_id]
        except KeyError:
            known = ", ".join(self._samplers)
            raise UnknownSamplerError(f"no sampler {sampler_id!r}; known: {known}") from None

    def entry(self, sampler_id: str) -> SamplerEntry:
        """The sampler; of a variant its base, whose id is another. Raises `UnknownSamplerError`."""
        return self.get(sampler_id).entry

    def variants(self, sampler_id: str) -> tuple[str, ...]:
        """The ids of the variants of a sampler, as they are configured."""
        return tuple(
            one for one in self._samplers if is_variant(one) and base_id(one) == sampler_id
        )

    def options(self, sampler_id: str) -> dict[str, object]:
        """Every option and its value, defaults included. Raises `UnknownSamplerError`."""
        return self.get(sampler_id).option_values

    def version(self, sampler_id: str) -> str:
        """What must be the same for two selections to be by the same sampler.

        The class's version, such as `1`; with options other than the class's defaults a digest of
        those follows, such as `1+3f9c2a1b`. Raises `UnknownSamplerError`.
        """
        return self.get(sampler_id).version

    def builtin(self, sampler_id: str) -> Sampler | None:
        """The built sampler; None for one that runs in a process, and for an unknown one."""
        return self._builtins.get(sampler_id)

    def uses_scorer(self, sampler_id: str) -> bool:
        """With its options it asks a model. False for an unknown sampler."""
        return sampler_id in self._samplers and self._samplers[sampler_id].uses_scorer

    def why_unusable(self, sampler_id: str) -> str | None:
        """What it needs and this deployment lacks, or how it failed to load; None where it may be
        served, and where nothing is known of it."""
        if sampler_id not in self._samplers:
            return self.registry.why_missing(base_id(sampler_id))
        return None if self._has_scorer or not self.uses_scorer(sampler_id) else NEEDS_SCORER


def load_sampler_table(
    extra_targets: Iterable[str], options: OptionsById, *, has_scorer: bool = False
) -> SamplerTable:
    """The table of what is installed, and of the `module:Class` of `extra_targets`.

    Raises the `SamplerError` at which the gateway ends at its start.
    """
    registry = load_registry(extra_targets)
    return SamplerTable(registry, options, encoder=DEFAULT_ENCODER, has_scorer=has_scorer)


def _configured(registry: Registry, options: OptionsById) -> dict[str, ConfiguredSampler]:
    """Each sampler of the registry, followed by its variants."""
    variants = [sampler_id for sampler_id in options if is_variant(sampler_id)]
    if len(variants) > MAX_VARIANTS:
        raise InvalidOptionsError(
            f"{len(variants)} variants are configured; {MAX_VARIANTS} are the most. Remove some, "
            f"such as {variants[-1]!r}."
        )
    for sampler_id in options:
        # An outside package that fails to load must not stop the start, nor must its options.
        if base_id(sampler_id) not in registry.unavailable:
            registry.get(base_id(sampler_id))
    configured = {}
    for entry in registry.entries.values():
        own = options.get(entry.id, {})
        configured[entry.id] = _sampler(entry, entry.id, own)
        for sampler_id in variants:
            if base_id(sampler_id) == entry.id:
                configured[sampler_id] = _variant(entry, sampler_id, own, options[sampler_id])
    return configured


def _variant(
    entry: SamplerEntry, sampler_id: str, base: Mapping[str, object], given: Mapping[str, object]
) -> ConfiguredSampler:
    try:
        changed = variant_options(entry, sampler_id, given)
    except InvalidOptionsError as exc:
        raise InvalidOptionsError(f"variant {sampler_id!r}: {exc}") from exc
    return _sampler(entry, sampler_id, {**base, **changed})


def _sampler(
    entry: SamplerEntry, sampler_id: str, values: Mapping[str, object]
) -> ConfiguredSampler:
    try:
        options = entry.parse_options(values)
    except InvalidOptionsError as exc:
        raise InvalidOptionsError(f"options of {sampler_id!r}: {exc}") from exc
    version = _version(entry, options)
    return ConfiguredSampler(sampler_id, entry, options, version, bool(options.uses_scorer))


def _version(entry: SamplerEntry, options: SamplerOptions) -> str:
    values = asdict(options)
    # As JSON, because it tells 1 from true and is the same in every process. Defaults are left out,
    # so that an option that a sampler gains later is no other version.
    changed = {
        option.name: values[option.name]
        for option in entry.options
        if json.dumps(values[option.name]) != json.dumps(option.default)
    }
    if not changed:
        return entry.version
    text = json.dumps(changed, sort_keys=True, separators=(",", ":"))
    return f"{entry.version}+{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]}"
