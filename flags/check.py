"""Finds what is wrong with a flag file before anyone is served by it.

flagd's engine accepts `{}`, weights in quotes and rules that never match, and gives everyone the
default variant; a typing error in a rollout would so go unnoticed. The same check decides whether a
changed file is adopted and answers `framegate flags check FILE`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from openfeature.contrib.tools.flagd.core import FlagdCore
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import OpenFeatureError

from flags.findings import Finding, error, errors_of, warning
from flags.keys import ALL_KEYS, OFF, RATE_KEYS, SAMPLER, SHADOW, SHADOW_RATE
from flags.targeting import TOTAL_WEIGHT, Json, Split, check_rule, find_splits

MAX_DEPTH: Final = 32
_TOP_LEVEL: Final = {"$schema", "flags", "metadata"}
_FLAG_FIELDS: Final = {"state", "variants", "defaultVariant", "targeting", "metadata"}

# Whatever JSON logic makes of operands that do not fit: it translates none of them.
_ENGINE_ERRORS: Final = (
    OpenFeatureError,
    ArithmeticError,
    AttributeError,
    LookupError,
    ReferenceError,
    RuntimeError,
    TypeError,
    ValueError,
)


class RefusedFlagsError(Exception):
    """A text that cannot be read as a flag file at all. Carries the findings."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("; ".join(str(finding) for finding in findings))
        self.findings = findings


def check_flag_text(text: str | bytes, known_samplers: frozenset[str]) -> list[Finding]:
    """Everything that is wrong with the text of a flag file; a file with errors is not adopted.

    `known_samplers`: the ids that may be served. Never raises for any text.
    """
    try:
        document = parse_flag_text(text)
    except RefusedFlagsError as exc:
        return exc.findings
    findings = [*_check_top_level(document), *_check_flags(document.get("flags"), known_samplers)]
    return findings if errors_of(findings) else [*findings, *_try_engine(document)]


def check_lacks(text: str | bytes, why_unusable: Callable[[str], str | None]) -> list[Finding]:
    """Samplers in the text of a flag file that lack something here: `uniform` would stand in.

    `why_unusable` says what a sampler lacks, None where it may be served. Raises nothing, whatever
    the text.
    """
    try:
        flags = parse_flag_text(text).get("flags")
    except RefusedFlagsError:
        return []
    return [finding for key in (SAMPLER, SHADOW) for finding in _lacks(flags, key, why_unusable)]


def _lacks(flags: Json, key: str, why_unusable: Callable[[str], str | None]) -> Iterator[Finding]:
    flag = flags.get(key) if isinstance(flags, dict) else None
    variants = flag.get("variants") if isinstance(flag, dict) else None
    for name, value in variants.items() if isinstance(variants, dict) else ():
        lack = why_unusable(value) if isinstance(value, str) else None
        if lack is not None:
            at = f'$.flags["{key}"].variants["{name}"]'
            fix = "Mend that, or serve another sampler"
            yield warning(at, f"{value!r} cannot be served here: {lack}", fix)


def check_change(old: str | bytes, new: str | bytes) -> list[Finding]:
    """What replacing the flag file `old` by `new` does to users who were dealt to an arm.

    Raising the candidate's weight only ever adds users and gives no finding. What is wrong inside
    each text is `check_flag_text`'s affair. Raises `RefusedFlagsError` where one is no JSON object.
    """
    before, after = parse_flag_text(old), parse_flag_text(new)
    return [finding for key in ALL_KEYS for finding in _check_flag_change(key, before, after)]


def unknown_sampler_fix(sampler_id: str, known: frozenset[str]) -> str:
    """What to do about an id that is not there."""
    text = f"Known here: {', '.join(sorted(known))}"
    if sampler_id.partition("@")[0] not in known:
        close = get_close_matches(sampler_id.lower(), sorted(known), n=1)
        return f"Did you mean `{close[0]}`? {text}" if close else text
    options = "{}" if "=" in sampler_id else '{"option": value}'
    declared = f"{{{json.dumps(sampler_id)}: {options}}}"
    return f"Declare the variant in the service's FRAMEGATE_SAMPLER_OPTIONS: {declared}. {text}"


def parse_flag_text(text: str | bytes) -> dict[str, Json]:
    """The JSON object in `text`. Raises `RefusedFlagsError`, also for keys that are given twice."""
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        document = json.loads(
            decoded, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as exc:
        fix = "Replace the file by `mv`, so that it is never seen half-written"
        raise RefusedFlagsError([error("$", f"not valid JSON ({exc})", fix)]) from exc
    if not isinstance(document, dict):
        raise RefusedFlagsError([error("$", "not a JSON object", 'Write {"flags": {...}}')])
    if findings := list(_check_tree(document)):
        raise RefusedFlagsError(findings)
    return document


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"the key {counts.most_common(1)[0][0]!r} is given twice")
    return values


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _check_tree(document: Json) -> Iterator[Finding]:
    level: list[Json] = [document]
    for _ in range(MAX_DEPTH):
        if any(
            isinstance(node, dict) and ("$ref" in node or "$evaluators" in node) for node in level
        ):
            fix = "Write the rule out where it is used"
            yield error("$", "`$ref` and `$evaluators` are not evaluated here", fix)
            return
        level = [child for node in level for child in _children(node)]
    if level:
        yield error("$", f"nested more than {MAX_DEPTH} levels deep", "Write a plainer rule")


def _children(node: Json) -> list[Json]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []


def _check_top_level(document: dict[str, Json]) -> Iterator[Finding]:
    for name in sorted(document.keys() - _TOP_LEVEL):
        yield warning(f"$.{name}", "an unknown name, which has no effect", "Remove it")
    yield from _check_metadata(document.get("metadata", {}), "$.metadata")
    match document:
        case {"metadata": {"version": str() | int()}}:
            return
    fix = 'Add "metadata": {"version": "..."} and raise it with every edit'
    yield warning("$.metadata.version", "decisions are recorded without a version", fix)


def _check_metadata(metadata: Json, where: str) -> Iterator[Finding]:
    if not isinstance(metadata, dict):
        yield error(where, "not an object", 'Write {"version": "1"}')
        return
    for name, value in metadata.items():
        if not name or not isinstance(value, (str, int, float, bool)):
            fix = "Use strings, numbers and booleans"
            yield error(f"{where}.{name}", "not a value that metadata may have", fix)


def _check_flags(flags: Json, known_samplers: frozenset[str]) -> Iterator[Finding]:
    if not isinstance(flags, dict):
        yield error("$.flags", "no object of flags", f'Add "flags": {{"{SAMPLER}": ...}}')
        return
    for key in (SAMPLER, SHADOW):
        if key not in flags:
            yield error("$.flags", f"the flag `{key}` is missing", "Add it")
    if SHADOW_RATE not in flags:
        what = f"the flag `{SHADOW_RATE}` is missing: nothing runs in shadow"
        yield warning("$.flags", what, "Add it")
    for key, flag in flags.items():
        where = f"$.flags[{json.dumps(key)}]"
        if key not in ALL_KEYS:
            yield warning(where, "not a flag that Framegate reads", f"Keys: {', '.join(ALL_KEYS)}")
        shape = list(_check_shape(flag, where))
        yield from shape
        if key in ALL_KEYS and not shape:
            yield from _check_values(key, flag["variants"], known_samplers, where)
            yield from _check_targeting(flag, where)


def _check_shape(flag: Json, where: str) -> Iterator[Finding]:
    if not isinstance(flag, dict):
        yield error(where, "not an object", "Give it state, variants and defaultVariant")
        return
    for name in sorted(flag.keys() - _FLAG_FIELDS):
        yield error(f"{where}.{name}", "a name that no flag has", "Remove it")
    if flag.get("state") not in ("ENABLED", "DISABLED"):
        yield error(f"{where}.state", "missing or unknown", 'Write "ENABLED"')
    variants = flag.get("variants")
    if not isinstance(variants, dict) or not variants:
        yield error(f"{where}.variants", "no variants", 'Write {"name": value}')
        return
    if not all(name and name.isprintable() for name in variants):
        yield error(f"{where}.variants", "an unprintable name", "Use letters, digits, - and _")
    default = flag.get("defaultVariant")
    if not isinstance(default, str) or default not in variants:
        yield error(f"{where}.defaultVariant", "missing, or no variant", "Name one of the variants")
    yield from _check_metadata(flag.get("metadata", {}), f"{where}.metadata")


def _check_values(
    key: str, variants: dict[str, Json], known_samplers: frozenset[str], where: str
) -> Iterator[Finding]:
    for name, value in variants.items():
        at = f'{where}.variants["{name}"]'
        if key in RATE_KEYS:
            if type(value) not in (int, float) or not 0 <= value <= 1:
                yield error(at, f"{value!r} is no rate", "Write a number from 0 to 1")
            continue
        allowed = known_samplers | {OFF} if key == SHADOW else known_samplers
        if not isinstance(value, str) or value not in allowed:
            fix = unknown_sampler_fix(str(value), allowed)
            yield error(at, f"{value!r} is not a sampler that can be served", fix)


def _check_targeting(flag: dict[str, Json], where: str) -> Iterator[Finding]:
    if flag["state"] == "DISABLED":
        yield warning(f"{where}.state", "DISABLED: the flag has no effect", 'Write "ENABLED"')
    rule = flag.get("targeting", {})
    if rule == {}:
        return
    if not isinstance(rule, dict):
        yield error(f"{where}.targeting", "not an object", "Write a rule, or leave it out")
        return
    findings = check_rule(rule, flag["variants"], f"{where}.targeting")
    yield from findings
    for split in find_splits(rule):
        yield from _check_default_arm(split, flag["defaultVariant"], where)


def _check_default_arm(split: Split, default_variant: str, where: str) -> Iterator[Finding]:
    if split.candidate.variant == default_variant and split.candidate.weight < TOTAL_WEIGHT:
        what = (
            f"`{default_variant}` is the first arm and the default arm at once: "
            "users without a user_id get it whatever its weight is"
        )
        fix = "List the candidate first and make the control the default variant"
        yield warning(f"{where}.defaultVariant", what, fix)


def _try_engine(document: dict[str, Json]) -> Iterator[Finding]:
    core = FlagdCore()
    probe = EvaluationContext(targeting_key="probe/probe", attributes={"tenant": "probe"})
    try:
        core.set_flags(json.dumps(document))
        for key in document["flags"].keys() & set(ALL_KEYS):
            if key in RATE_KEYS:
                core.resolve_float_value(key, 0.0, probe)
            else:
                core.resolve_string_value(key, OFF, probe)
    except _ENGINE_ERRORS as exc:
        reason = getattr(exc, "error_message", None) or str(exc) or type(exc).__name__
        yield error("$.flags", f"the engine fails on it ({reason})", "Look at the conditions")


def _check_flag_change(key: str, old: Json, new: Json) -> Iterator[Finding]:
    before, after = _dealing(key, old), _dealing(key, new)
    if before is None or after is None:
        return
    where = f'$.flags["{key}"].targeting'
    start = "Start a new analysis with a new salt"
    if before.split.salt != after.split.salt:
        yield warning(where, "another salt deals every user anew", start)
    elif before.split.total != after.split.total:
        what = f"the total of the weights goes from {before.split.total} to {after.split.total}"
        yield warning(where, f"{what}, which deals every user anew", "Keep the total")
    elif before.samplers != after.samplers and before.samplers == after.samplers[::-1]:
        yield warning(where, "the arms changed places, which swaps users", "Restore the order")
    elif before.samplers != after.samplers:
        what = "an arm serves another sampler, to the users that the old one was dealt"
        yield warning(where, what, start)
    elif after.split.candidate.weight < before.split.candidate.weight:
        weights = f"{before.split.candidate.weight} to {after.split.candidate.weight}"
        yield warning(where, f"the candidate's weight falls from {weights}: users leave it", start)


@dataclass(frozen=True, slots=True)
class _Dealing:
    """A split and what its arms serve, the candidate's first."""

    split: Split
    samplers: tuple[Json, Json]


def _dealing(key: str, document: Json) -> _Dealing | None:
    match document.get("flags"):
        case {**flags}:
            match flags.get(key):
                case {"variants": {**variants}, "targeting": rule}:
                    for split in find_splits(rule):
                        names = (split.candidate.variant, split.control.variant)
                        return _Dealing(split, (variants.get(names[0]), variants.get(names[1])))
    return None
