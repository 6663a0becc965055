"""A sampler's options, read from its frozen `Options` dataclass: description and validation.

Declared once, as typed fields; command line, HTTP reference and registry all read them here.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from samplers.contract import InvalidOptionsError, SamplerOptions

OptionValue: TypeAlias = bool | int | float | str | None

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS: Mapping[str, OptionValue] = {"true": True, "false": False, "null": None}
_SCALARS: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_MOST_SHOWN_CHARS = 80
_LARGEST_INTEGER = 2**63 - 1
_MOST_DIGITS = 4300
"""Python reads and writes no longer integers."""


@dataclass(frozen=True, slots=True)
class OptionField:
    """One option as people see it."""

    name: str
    type_name: str
    """`boolean`, `integer`, `number`, `string`, or `string or null` and so on."""
    choices: tuple[OptionValue, ...]
    """The allowed values where the type names them, else empty."""
    default: OptionValue
    doc: str


def option_fields(options_class: type[SamplerOptions]) -> tuple[OptionField, ...]:
    """Every option of `options_class`, in order of declaration.

    Raises `InvalidOptionsError` when a field has no default or a type other than bool, int, float,
    str, `Literal` of those, or one of them `| None`.
    """
    hints = get_type_hints(options_class)
    described = []
    for declared in fields(options_class):
        type_name = _type_name(declared.name, hints[declared.name])
        described.append(
            OptionField(
                name=declared.name,
                type_name=type_name,
                choices=_choices(hints[declared.name]),
                default=_default(declared),
                doc=str(declared.metadata.get("doc", "")),
            )
        )
    return tuple(described)


def _default(declared: Field[Any]) -> OptionValue:
    if declared.default_factory is not MISSING:
        made: OptionValue = declared.default_factory()
        return made
    if declared.default is MISSING:
        raise InvalidOptionsError(f"option {declared.name!r} has no default")
    value: OptionValue = declared.default
    return value


def parse_options(
    options_class: type[SamplerOptions], values: Mapping[str, object]
) -> SamplerOptions:
    """`options_class` from a plain mapping. Raises `InvalidOptionsError` naming the bad option."""
    hints = get_type_hints(options_class)
    _check_names(options_class, values)
    checked = {name: _checked(name, value, hints[name]) for name, value in values.items()}
    try:
        return options_class(**checked)
    except (TypeError, ValueError) as exc:
        raise InvalidOptionsError(f"options {checked} are refused: {exc}") from exc


def check_ranges(options: SamplerOptions, **ranges: tuple[float, float]) -> None:
    """For `__post_init__`: `name=(low, high)`, both ends included.

    Raises `InvalidOptionsError` naming the first option that lies outside.
    """
    for name, (low, high) in ranges.items():
        value = getattr(options, name)
        if not low <= value <= high:
            raise InvalidOptionsError(f"option {name!r} must lie in {low:g}..{high:g}, not {value}")


def option_from_text(options_class: type[SamplerOptions], name: str, text: str) -> object:
    """The value of one option as people write it: `0.2`, `true`, `null`, `centre`.

    Where its type leaves a choice, the text is rather a boolean, null or number than a string.
    Raises `InvalidOptionsError` naming the unknown or mistyped option.
    """
    _check_names(options_class, [name])
    hint = get_type_hints(options_class)[name]
    for value in _readings(text):
        with suppress(InvalidOptionsError):
            return _checked(name, value, hint)
    return _checked(name, text, hint)


def _readings(text: str) -> Iterator[OptionValue]:
    if text in _WORDS:
        yield _WORDS[text]
    if _INTEGER.fullmatch(text) and len(text) <= _MOST_DIGITS:
        yield int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        yield float(text)


def _check_names(options_class: type[SamplerOptions], names: Iterable[str]) -> None:
    known = [declared.name for declared in fields(options_class)]
    for name in names:
        if name not in known:
            raise InvalidOptionsError(
                f"unknown option {name!r}; known: {', '.join(known) or 'none'}"
            )


def _members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the type alone."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _choices(hint: Any) -> tuple[OptionValue, ...]:
    return tuple(
        choice
        for member in _members(hint)
        if get_origin(member) is Literal
        for choice in get_args(member)
    )


def _type_name(name: str, hint: Any) -> str:
    names = []
    for member in _members(hint):
        kinds = {type(choice) for choice in get_args(member)} or {member}
        for kind in sorted(kinds, key=str):
            if kind is not types.NoneType and kind not in _SCALARS:
                raise InvalidOptionsError(
                    f"option {name!r} has the unsupported type {_type_text(member)}"
                )
            names.append("null" if kind is types.NoneType else _SCALARS[kind])
    return " or ".join(names)


def _type_text(hint: Any) -> str:
    return hint.__name__ if type(hint) is type else str(hint)


def _checked(name: str, value: object, hint: Any) -> object:
    _check_number(name, value)
    if type(value) is float:
        value += 0.0  # Of two zeros that are equal, but not as text, one.
    for member in _members(hint):
        if get_origin(member) is Literal:
            if any(value == c and type(value) is type(c) for c in get_args(member)):
                return value
        elif type(value) is member:
            return value
        elif member is float and type(value) is int:
            return float(value)
    expected = " or ".join(repr(c) for c in _choices(hint)) or _type_name(name, hint)
    raise InvalidOptionsError(f"option {name!r} must be {expected}, not {_shown(value)}")


def _check_number(name: str, value: object) -> None:
    if type(value) is int and not -_LARGEST_INTEGER - 1 <= value <= _LARGEST_INTEGER:
        raise InvalidOptionsError(f"option {name!r} must lie within 64 bits, not {_shown(value)}")
    if type(value) is float and not math.isfinite(value):
        raise InvalidOptionsError(f"option {name!r} must be finite, not {value}")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        return f"a number of more than {_MOST_DIGITS} digits"
    return text if len(text) <= _MOST_SHOWN_CHARS else f"{text[:_MOST_SHOWN_CHARS]}..."
