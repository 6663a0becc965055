"""What the conformance kit asks of a class before it calls it: what the service asks, and more.

Use it through `check_sampler` of `samplers.testing`.
"""

from __future__ import annotations

from typing import Any

from samplers.contract import ContractViolationError, SamplerError
from samplers.registry import BUILT_IN, describe


def check_class(sampler_class: type[Any]) -> None:
    """Raise `ContractViolationError` where the service would refuse `sampler_class`.

    Also where it is described to nobody, or takes the id of one of Framegate's own samplers.
    """
    target = f"{sampler_class.__module__}:{sampler_class.__qualname__}"
    try:
        entry = describe(sampler_class, target)
    except SamplerError as exc:
        raise ContractViolationError(str(exc)) from exc
    if BUILT_IN.get(entry.id, target) != target:
        raise ContractViolationError(
            f"{target} has the id {entry.id!r}, which is a sampler of Framegate's own"
        )
    if not entry.doc:
        raise ContractViolationError(f"{target} needs a docstring: its first line is shown")
    for option in entry.options:
        if not option.doc:
            raise ContractViolationError(
                f'option {option.name!r} needs metadata={{"doc": "what it does, unit"}}'
            )
