from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest

from samplers.contract import InvalidOptionsError, SamplerOptions
from samplers.options import OptionField, option_fields, option_from_text, parse_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(SamplerOptions):
    mode: Literal["fast", "slow"] = field(default="fast", metadata={"doc": "how"})
    window_s: float = 1.5
    top: int = 3
    is_strict: bool = False
    note: str | None = None
    limit: int | float | None = None

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ValueError("top must be positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(SamplerOptions):
    names: list[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredOptions(SamplerOptions):
    count: int


def test_options_are_described_from_their_fields() -> None:
    described = option_fields(Options)
    assert described[0] == OptionField("mode", "string", ("fast", "slow"), "fast", "how")
    assert [(o.name, o.type_name, o.default) for o in described[1:]] == [
        ("window_s", "number", 1.5),
        ("top", "integer", 3),
        ("is_strict", "boolean", False),
        ("note", "string or null", None),
        ("limit", "integer or number or null", None),
    ]


def test_good_values_are_taken_and_the_rest_keeps_its_default() -> None:
    parsed = parse_options(Options, {"mode": "slow", "window_s": 2, "note": "x"})
    assert parsed == Options(mode="slow", window_s=2.0, note="x")
    assert isinstance(parsed, Options)
    assert type(parsed.window_s) is float


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "medium"),
        ("mode", None),
        ("window_s", "2"),
        ("window_s", True),
        ("top", 2.0),
        ("top", True),
        ("is_strict", 1),
        ("is_strict", "true"),
        ("note", 5),
        ("speed", 3),
        ("window_s", float("nan")),
        ("window_s", float("inf")),
        ("limit", float("-inf")),
        ("window_s", 10**400),
        ("window_s", 2**63),
        ("top", 10**400),
        ("top", -(2**63) - 1),
        pytest.param("limit", 10**5000, id="limit-unwritable"),
        ("note", [10**5000]),
        ("note", ["x" * 10_000]),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidOptionsError, match=repr(name)) as refusal:
        parse_options(Options, {name: value})
    assert len(str(refusal.value)) < 200


def test_the_largest_integer_is_taken() -> None:
    assert parse_options(Options, {"top": 2**63 - 1}) == Options(top=2**63 - 1)


@pytest.mark.parametrize("zero", [-0.0, 0, 0.0])
def test_there_is_one_zero(zero: float) -> None:
    parsed = parse_options(Options, {"window_s": zero})
    assert isinstance(parsed, Options)
    assert str(parsed.window_s) == "0.0"
    assert str(option_from_text(Options, "window_s", str(zero))) == "0.0"


def test_a_value_that_the_class_refuses_is_an_invalid_option() -> None:
    with pytest.raises(InvalidOptionsError, match="top must be positive"):
        parse_options(Options, {"top": 0})


@pytest.mark.parametrize("options_class", [ListOptions, RequiredOptions])
def test_options_that_cannot_be_described_are_refused(options_class: type[SamplerOptions]) -> None:
    with pytest.raises(InvalidOptionsError, match=r"names|count"):
        option_fields(options_class)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("mode", "slow", "slow"),
        ("window_s", "2", 2.0),
        ("window_s", "-1.5e-3", -0.0015),
        ("window_s", "+.5", 0.5),
        ("top", "+7", 7),
        ("is_strict", "true", True),
        ("is_strict", "false", False),
        ("note", "null", None),
        ("note", "5", "5"),
        ("note", "true", "true"),
        ("limit", "5", 5),
        ("limit", "5.0", 5.0),
        ("limit", "null", None),
    ],
)
def test_an_option_is_read_from_text_by_its_type(name: str, text: str, value: object) -> None:
    found = option_from_text(Options, name, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mode", "medium"),
        ("window_s", "fast"),
        ("window_s", "nan"),
        ("window_s", "inf"),
        ("window_s", "1e999"),
        ("window_s", "1_000"),
        ("window_s", "\u0663"),
        ("window_s", "true"),
        ("top", "2.0"),
        ("top", "null"),
        ("is_strict", "True"),
        ("is_strict", "1"),
        ("limit", "many"),
        ("speed", "3"),
        *((name, "9" * count) for name in ("window_s", "top", "limit") for count in (400, 5000)),
        ("top", "-" + "9" * 4300),
    ],
)
def test_a_text_that_is_no_value_of_the_option_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidOptionsError, match=repr(name)):
        option_from_text(Options, name, text)
