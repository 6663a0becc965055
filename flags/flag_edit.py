"""Edits of a flag file for a rollout: pure functions from content to content.

Only `video.sampler` and `metadata.version` change; other flags, `$schema`, the rest of the metadata
and the conditions of the rule stay as they are. The place of the split in the rule is where one
stands already, else the branch for users with a targeting key, else the last branch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flags.check import RefusedFlagsError, check_flag_text, parse_flag_text
from flags.findings import errors_of
from flags.keys import BASELINE, SAMPLER
from flags.targeting import (
    TARGETING_KEY,
    TOTAL_WEIGHT,
    Json,
    Split,
    check_rule,
    find_splits,
    replace_splits,
)

_LAST_NUMBER: Final = re.compile(r"[0-9]+$")


class UneditableFlagsError(Exception):
    """The flag file cannot take the edit. The text says why and what to do about it."""


@dataclass(frozen=True, slots=True)
class Arms:
    """Two samplers between which users are dealt; `weight` of 100 users get the candidate."""

    candidate: str
    control: str
    weight: int
    salt: str | None
    """None: dealt by [flag key, targeting key]; never written by `put_arms`."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What `video.sampler` does outside its conditions."""

    arms: Arms | None
    """The split, whatever its weights; None where nobody is dealt."""
    without_split: str | None
    """The sampler of users with a user id where nobody is dealt."""
    default: str
    """The sampler of users without a user id."""
    is_enabled: bool = True
    """False: the flag's state is DISABLED, and everyone gets the baseline."""

    @property
    def samplers(self) -> frozenset[str]:
        """All that somebody may get."""
        if not self.is_enabled:
            return frozenset({BASELINE})
        if self.arms is None:
            return frozenset({self.default, self.without_split or self.default})
        served = {self.default}
        served |= {self.arms.candidate} if self.arms.weight > 0 else set()
        served |= {self.arms.control} if self.arms.weight < TOTAL_WEIGHT else set()
        return frozenset(served)

    @property
    def everyone(self) -> str | None:
        """The one sampler that all users get; None where there are several."""
        return next(iter(self.samplers)) if len(self.samplers) == 1 else None


def content_digest(content: bytes) -> str:
    """Hex sha256 of a whole flag file."""
    return hashlib.sha256(content).hexdigest()


def sampler_digest(content: bytes) -> str | None:
    """Hex sha256 of the meaning of `video.sampler`: the same after edits of anything else.

    None where the content is no JSON object.
    """
    try:
        flags = parse_flag_text(content).get("flags")
    except RefusedFlagsError:
        return None
    flag = flags.get(SAMPLER) if isinstance(flags, dict) else None
    text = json.dumps(flag, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_serving(content: bytes, known_samplers: frozenset[str]) -> Serving:
    """What is served now. Raises `UneditableFlagsError` where that cannot be told, also for a file
    that has errors: what is served then is what the last good file said."""
    flag = _checked(content, known_samplers)["flags"][SAMPLER]
    is_enabled = flag["state"] == "ENABLED"
    rule = flag.get("targeting")
    variants = flag["variants"]
    default = variants[flag["defaultVariant"]]
    splits = find_splits(rule)
    if splits:
        return Serving(_arms(splits[0], variants), None, default, is_enabled)
    named = _rule_at(rule, _place(rule))
    without_split = variants[named] if isinstance(named, str) else default
    return Serving(None, without_split, default, is_enabled)


def put_arms(content: bytes, arms: Arms, known_samplers: frozenset[str]) -> bytes:
    """The flag file that deals users between `arms`, the candidate first; the control is the
    default.

    Raises `UneditableFlagsError` also where the result would have errors.
    """
    document = _checked(content, known_samplers)
    flag = document["flags"][SAMPLER]
    candidate = _named_variant(flag, arms.candidate)
    control = _named_variant(flag, arms.control)
    split = {
        "fractional": [
            {"cat": [arms.salt, dict(TARGETING_KEY)]},
            [candidate, arms.weight],
            [control, TOTAL_WEIGHT - arms.weight],
        ]
    }
    flag["defaultVariant"] = control
    flag["targeting"] = _with_split(flag.get("targeting"), split, flag["variants"])
    return _written(document, known_samplers)


def serve_all(
    content: bytes, sampler_id: str, known_samplers: frozenset[str], *, drop: str | None = None
) -> bytes:
    """The flag file that gives `sampler_id` to everyone whom no condition names another one for.

    The split is taken out. `drop`: a sampler whose variant goes too, unless a condition names it;
    it may be unknown here. Raises `UneditableFlagsError`.
    """
    document = _checked(content, known_samplers | ({drop} if drop else set()))
    flag = document["flags"][SAMPLER]
    flag["defaultVariant"] = _named_variant(flag, sampler_id)
    rule = flag.pop("targeting", None)
    place = _place(rule)
    if find_splits(rule):
        rule = replace_splits(rule, lambda _: None)
    elif isinstance(_rule_at(rule, place), str):
        rule = _replaced_at(rule, place, None)
    rule = _without_empty_branches(rule)
    if rule is not None:
        flag["targeting"] = rule
    if drop is not None:
        _drop_variants(flag, drop)
    return _written(document, known_samplers)


def _checked(content: bytes, known_samplers: frozenset[str]) -> dict[str, Json]:
    errors = errors_of(check_flag_text(content, known_samplers))
    if errors:
        raise UneditableFlagsError(f"the flag file is not obeyed: {errors[0]}")
    return parse_flag_text(content)


def _arms(split: Split, variants: dict[str, str]) -> Arms:
    candidate, control = split.candidate, split.control
    return Arms(
        variants[candidate.variant], variants[control.variant], candidate.weight, split.salt
    )


def _named_variant(flag: dict[str, Json], sampler_id: str) -> str:
    """The variant that serves this sampler, added where there is none."""
    variants: dict[str, str] = flag["variants"]
    preferred = (sampler_id, flag["defaultVariant"], *variants)
    for name in preferred:
        if variants.get(name) == sampler_id:
            return str(name)
    name = sampler_id
    while name in variants:
        name += "-sampler"
    variants[name] = sampler_id
    return name


def _place(rule: Json) -> list[int]:
    """Positions of the nested branches that lead to where the split stands or belongs."""
    if not isinstance(rule, dict) or "if" not in rule:
        return []
    branches = rule["if"]
    position = _branch(branches)
    rest = branches[position] if position < len(branches) else None
    return [position, *_place(rest)]


def _branch(branches: list[Json]) -> int:
    last = len(branches) - 1
    rules = [i for i in range(len(branches)) if i % 2 == 1 or i == last]
    for position in rules:
        if find_splits(branches[position]):
            return position
    for position in rules:
        if position % 2 == 1 and branches[position - 1] == TARGETING_KEY:
            return position
    return last if last % 2 == 0 else last + 1


def _rule_at(rule: Json, place: list[int]) -> Json:
    for position in place:
        branches = rule["if"]
        rule = branches[position] if position < len(branches) else None
    return rule


def _replaced_at(rule: Json, place: list[int], new: Json) -> Json:
    if not place:
        return new
    branches = [*rule["if"]]
    if place[0] == len(branches):
        branches.append(None)
    branches[place[0]] = _replaced_at(branches[place[0]], place[1:], new)
    return {"if": branches}


def _with_split(rule: Json, split: Json, variants: dict[str, str]) -> Json:
    place = _place(rule)
    bare = _replaced_at(rule or None, place, split)
    if not check_rule(bare, variants, "$"):
        return bare
    # Other flagd engines deal everyone without a targeting key into one arm.
    return _replaced_at(rule or None, place, {"if": [dict(TARGETING_KEY), split]})


def _without_empty_branches(rule: Json) -> Json:
    """The same rule, shorter: null where every branch is, and no null at its end."""
    if not isinstance(rule, dict) or "if" not in rule:
        return rule or None
    last = len(rule["if"]) - 1
    branches = [
        branch if i % 2 == 0 and i < last else _without_empty_branches(branch)
        for i, branch in enumerate(rule["if"])
    ]
    if last % 2 == 0 and branches[-1] is None:
        branches.pop()
    # A condition whose rule is null hides the conditions behind it, so it goes only at the end.
    while len(branches) % 2 == 0 and branches and branches[-1] is None:
        del branches[-2:]
    return {"if": branches} if branches else None


def _drop_variants(flag: dict[str, Json], sampler_id: str) -> None:
    named = {flag["defaultVariant"], *_strings_in_rules(flag.get("targeting"))}
    flag["variants"] = {
        name: value
        for name, value in flag["variants"].items()
        if value != sampler_id or name in named
    }


def _strings_in_rules(rule: Json) -> Iterator[str]:
    if isinstance(rule, str):
        yield rule
    elif isinstance(rule, dict) and "if" in rule:
        for branch in rule["if"]:
            yield from _strings_in_rules(branch)


def _written(document: dict[str, Json], known_samplers: frozenset[str]) -> bytes:
    metadata = document.setdefault("metadata", {})
    metadata["version"] = _next_version(metadata.get("version"))
    content = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    errors = errors_of(check_flag_text(content, known_samplers))
    if errors:
        raise UneditableFlagsError(f"the edited flag file would be refused: {errors[0]}")
    return content


def _next_version(version: Json) -> int | str:
    """Its last number raised by one: 12 -> 13, "7" -> "8", "2026-11-a" -> "2026-11-a.1"."""
    if type(version) is int:
        return version + 1
    if not isinstance(version, str) or not version:
        return "1"
    found = _LAST_NUMBER.search(version)
    if found is None:
        return f"{version}.1"
    digits = found[0]
    return version[: found.start()] + str(int(digits) + 1).zfill(len(digits))
