"""The targeting rules that Framegate accepts: a small part of flagd's JSON logic.

    rule      := split | {"if": [condition, rule, ..., rule]} | "variant" | null
    split     := {"fractional": [bucketing?, ["candidate", weight], ["control", weight]]}
    bucketing := {"cat": ["salt", ..., {"var": "targetingKey"}]}
    condition := JSON logic without a split

Null means the default arm; without `bucketing`, users are dealt by [flag key, targeting key].
flagd gives the default variant, without an error, for most mistakes in a rule; hence this grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from openfeature.contrib.tools.flagd.core.targeting.targeting import OPERATORS

from flags.findings import Finding, error, warning

Json: TypeAlias = Any
"""What `json.loads` gives: checked here, so not typed before."""

TOTAL_WEIGHT: Final = 100
TARGETING_KEY: Final[Mapping[str, str]] = {"var": "targetingKey"}

_CONTROL_WORDS: Final = {"if", "?:", "and", "or", "filter", "map", "reduce", "all", "none", "some"}
# `log` prints to the standard output at every decision.
_CONDITION_OPERATORS: Final = (set(OPERATORS) | _CONTROL_WORDS) - {"fractional", "log"}


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a split: `weight` of `TOTAL_WEIGHT` users get `variant`."""

    variant: str
    weight: int


@dataclass(frozen=True, slots=True)
class Split:
    """The two arms between which users are dealt.

    `salt` is None where users are dealt by [flag key, targeting key], flagd's short form.
    """

    salt: str | None
    candidate: Arm
    control: Arm

    @property
    def total(self) -> int:
        return self.candidate.weight + self.control.weight


def find_splits(rule: Json) -> list[Split]:
    """The splits of a rule, in its order; what is no well-formed split is passed over."""
    match rule:
        case {"fractional": [[str(), int()] as candidate, [str(), int()] as control]}:
            return [Split(None, Arm(*candidate), Arm(*control))]
        case {
            "fractional": [
                {"cat": [*salts, _]},
                [str(), int()] as candidate,
                [str(), int()] as control,
            ]
        }:
            return [Split("".join(map(str, salts)), Arm(*candidate), Arm(*control))]
        case {"if": [*branches]}:
            return [split for branch in branches for split in find_splits(branch)]
    return []


def replace_splits(rule: Json, replace: Callable[[list[Json]], Json]) -> Json:
    """A copy of a checked `rule` with `replace(arguments)` in the place of every `fractional`
    node."""
    if not isinstance(rule, dict) or not rule:
        return rule
    if "fractional" in rule:
        return replace(rule["fractional"])
    branches = rule["if"]
    return {
        "if": [
            branch if _is_condition(position, branches) else replace_splits(branch, replace)
            for position, branch in enumerate(branches)
        ]
    }


def check_rule(rule: Json, variants: Mapping[str, Json], where: str) -> list[Finding]:
    """What is wrong with a flag's `targeting`; empty when it is one of the rules above, with one
    split at most."""
    findings = list(_check_branch(rule, variants, where, has_key=False))
    if len(find_splits(rule)) > 1:
        fix = "Roll out one candidate at a time; use the condition of an `if` to choose its users"
        findings.append(error(where, "more than one `fractional`", fix))
    return findings


def _check_branch(
    rule: Json, variants: Mapping[str, Json], where: str, *, has_key: bool
) -> Iterator[Finding]:
    match rule:
        case None:
            return
        case str():
            if rule not in variants:
                yield _unknown_variant(rule, where)
        case {"fractional": arguments, **rest} if not rest:
            yield from _check_split(arguments, variants, f"{where}.fractional", has_key=has_key)
        case {"if": [_, *_] as branches, **rest} if not rest:
            yield from _check_if(branches, variants, f"{where}.if")
        case _:
            fix = 'Write {"fractional": ...}, {"if": [...]}, the name of a variant, or null'
            yield error(where, "not a rule that Framegate evaluates", fix)


def _check_if(branches: list[Json], variants: Mapping[str, Json], where: str) -> Iterator[Finding]:
    for position, branch in enumerate(branches):
        at = f"{where}[{position}]"
        if _is_condition(position, branches):
            yield from _check_condition(branch, at)
        else:
            asks_for_key = position > 0 and TARGETING_KEY in list(_nodes(branches[position - 1]))
            yield from _check_branch(branch, variants, at, has_key=asks_for_key)


def _is_condition(position: int, branches: list[Json]) -> bool:
    return position % 2 == 0 and position < len(branches) - 1


def _check_condition(condition: Json, where: str) -> Iterator[Finding]:
    for node in _nodes(condition):
        if not isinstance(node, dict) or len(node) != 1:
            continue
        operator = next(iter(node))
        if operator not in _CONDITION_OPERATORS:
            fix = (
                "Use flagd's operators; `fractional` belongs in a branch and `log` in no flag file"
            )
            yield error(where, f"`{operator}` cannot stand in a condition", fix)


def _nodes(value: Json) -> Iterator[Json]:
    yield value
    children: list[Json] = []
    if isinstance(value, dict):
        children = list(value.values())
    elif isinstance(value, list):
        children = value
    for child in children:
        yield from _nodes(child)


def _parts(arguments: list[Json]) -> tuple[Json | None, list[Json]]:
    if arguments and not isinstance(arguments[0], list):
        return arguments[0], arguments[1:]
    return None, arguments


def _check_split(
    arguments: Json, variants: Mapping[str, Json], where: str, *, has_key: bool
) -> Iterator[Finding]:
    if not isinstance(arguments, list):
        yield error(where, "not a list", 'Write [["candidate", 5], ["control", 95]]')
        return
    bucketing, arms = _parts(arguments)
    if bucketing is not None:
        yield from _check_bucketing(bucketing, f"{where}[0]", has_key=has_key)
    if len(arms) != 2:
        what = f"{len(arms)} arms: growing one of three moves the users of another"
        yield error(where, what, "Write two arms, the candidate first")
        return
    first = len(arguments) - 2
    arm_findings = [
        finding
        for position, arm in enumerate(arms)
        for finding in _check_arm(arm, variants, f"{where}[{first + position}]")
    ]
    yield from arm_findings
    if not arm_findings:
        yield from _check_pair(arms, where)


def _check_pair(arms: list[Json], where: str) -> Iterator[Finding]:
    if arms[0][0] == arms[1][0]:
        yield error(where, "both arms are the same variant", "Name two variants")
    total = arms[0][1] + arms[1][1]
    if total != TOTAL_WEIGHT:
        what = f"the weights add up to {total}: another total deals every user anew"
        yield error(where, what, f"Let the two weights add up to {TOTAL_WEIGHT}")


def _check_arm(arm: Json, variants: Mapping[str, Json], where: str) -> Iterator[Finding]:
    match arm:
        case [str() as variant, weight]:
            if variant not in variants:
                yield _unknown_variant(variant, where)
            if type(weight) is not int:
                what = f"the weight {weight!r} is not an integer: everyone gets the default variant"
                yield error(f"{where}[1]", what, "Write a whole number without quotes or point")
            elif not 0 <= weight <= TOTAL_WEIGHT:
                what = f"the weight {weight} is outside 0..{TOTAL_WEIGHT}"
                yield error(f"{where}[1]", what, f"Write a whole number from 0 to {TOTAL_WEIGHT}")
        case _:
            yield error(where, "not an arm", 'Write ["variant", weight], the weight always given')


def _check_bucketing(bucketing: Json, where: str, *, has_key: bool) -> Iterator[Finding]:
    match bucketing:
        case {"cat": [*salts, {"var": "targetingKey"} as key], **rest} if (
            not rest and len(key) == 1 and salts and all(_is_salt(salt) for salt in salts)
        ):
            if not has_key:
                fix = 'Put the split into {"if": [{"var": "targetingKey"}, {"fractional": ...}]}'
                what = (
                    "other flagd engines deal everyone without a targeting key into one arm here "
                    "(Framegate gives them the default arm)"
                )
                yield warning(where, what, fix)
        case _:
            fix = 'Write {"cat": ["a salt", {"var": "targetingKey"}]}, or leave it out'
            yield error(where, "users are not dealt by their targeting key", fix)


def _is_salt(salt: Json) -> bool:
    return isinstance(salt, str) and salt.isprintable()


def _unknown_variant(variant: str, where: str) -> Finding:
    return error(where, f"`{variant}` is not in the flag's `variants`", "Name one of its variants")
