"""The samplers of this deployment with their configured options.

Built-ins are built here, once. Outside samplers are foreign code: they are built and run in the
selection processes only (`app/sampler_pools.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType

from flags.keys import BASELINE
from samplers.contract import Sampler
from samplers.registry import Registry, SamplerEntry

OptionsById = Mapping[str, Mapping[str, object]]


class SamplerTable:
    """What may be selected by. Immutable; the samplers are shared by threads."""

    def __init__(self, registry: Registry, options: OptionsById, *, encoder: str) -> None:
        """Raises `InvalidOptionsError`, and `UnknownSamplerError` for options of no sampler."""
        for sampler_id in options:
            registry.get(sampler_id)
        self.registry = registry
        self.encoder = encoder
        self._options = MappingProxyType(
            {
                sampler_id: asdict(entry.parse_options(options.get(sampler_id, {})))
                for sampler_id, entry in registry.entries.items()
            }
        )
        self._builtins = MappingProxyType(
            {
                sampler_id: entry.build(self._options[sampler_id], encoder=encoder)
                for sampler_id, entry in registry.entries.items()
                if entry.is_builtin
            }
        )

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self.registry.entries)

    @property
    def baseline(self) -> Sampler:
        return self._builtins[BASELINE]

    def entry(self, sampler_id: str) -> SamplerEntry:
        """Raises `UnknownSamplerError`."""
        return self.registry.get(sampler_id)

    def options(self, sampler_id: str) -> dict[str, object]:
        """Every option and its value, defaults included."""
        return dict(self._options[sampler_id])

    def builtin(self, sampler_id: str) -> Sampler | None:
        """The built sampler, or None for an outside one."""
        return self._builtins.get(sampler_id)
