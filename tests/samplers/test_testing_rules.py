"""What the kit, and the service with it, refuses in a class before any call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from samplers.contract import ContractViolationError, FrameScorer, SamplerOptions
from samplers.testing import check_sampler
from samplers.testing_rules import check_class
from samplers.uniform import UniformSampler
from tests.samplers.test_testing import Mutant


class Upper(Mutant):
    id: ClassVar[str] = "Upper"


class Off(Mutant):
    id: ClassVar[str] = "off"


class TakesABuiltInsId(Mutant):
    id: ClassVar[str] = "aks"


class OptionWithoutDoc(Mutant):
    @dataclass(frozen=True, kw_only=True)
    class Options(SamplerOptions):
        stride: int = 2


class OptionOfAList(Mutant):
    @dataclass(frozen=True, kw_only=True)
    class Options(SamplerOptions):
        words: list[str] = field(default_factory=list, metadata={"doc": "words"})


class OptionWithoutDefault(Mutant):
    @dataclass(frozen=True, kw_only=True)
    class Options(SamplerOptions):
        stride: int = field(metadata={"doc": "rows"})


class OptionsOfNoBase(Mutant):
    @dataclass(frozen=True, kw_only=True)
    class Options:
        stride: int = field(default=2, metadata={"doc": "rows"})


class LacksTheScorer(Mutant):
    def __init__(self, options: Any, *, encoder: str) -> None:
        super().__init__(options, encoder=encoder)


class LacksTheEncoder(Mutant):
    def __init__(self, options: Any, scorer: FrameScorer | None = None) -> None:
        super().__init__(options, encoder="default", scorer=scorer)


@dataclass(frozen=True)
class WithoutDocstring:
    id: ClassVar[str] = "without-docstring"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = False
    Options: ClassVar[type[SamplerOptions]] = SamplerOptions
    options: SamplerOptions
    encoder: str
    scorer: FrameScorer | None = None
    select = Mutant.select


REFUSED = {
    Upper: "'Upper', which cannot be a flag value",
    Off: "'off', which cannot be a flag value",
    TakesABuiltInsId: "'aks', which is a sampler of Framegate's own",
    OptionWithoutDoc: "option 'stride' needs metadata",
    OptionOfAList: r"option 'words' has the unsupported type list\[str\]",
    OptionWithoutDefault: "option 'stride' has no default",
    OptionsOfNoBase: "must declare Options, a subclass of SamplerOptions",
    LacksTheScorer: "must be built as .*unexpected keyword argument 'scorer'",
    LacksTheEncoder: "must be built as .*unexpected keyword argument 'encoder'",
    WithoutDocstring: "needs a docstring",
}


@pytest.mark.parametrize("sampler_class", list(REFUSED), ids=lambda one: one.__name__)
def test_a_class_that_could_not_be_served_is_refused_with_the_rule(
    sampler_class: type[Any],
) -> None:
    with pytest.raises(ContractViolationError, match=REFUSED[sampler_class]):
        check_sampler(sampler_class)


def test_a_built_in_may_have_its_own_id_and_a_subclass_its_docstring() -> None:
    check_class(UniformSampler)
    check_class(Mutant)
    check_class(type("Renamed", (Mutant,), {"id": "renamed"}))
