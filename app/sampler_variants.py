"""Variants: a sampler under another id, with other options, so that a flag can serve a setting.

    aks@t1=0.2               its name says its options
    aks@sharp                its options are given, under a name of the operator's

`base@name`; the part before the first `@` is the id of a sampler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from samplers.contract import InvalidOptionsError
from samplers.options import option_from_text
from samplers.registry import SamplerEntry

MAX_VARIANTS: Final = 32
"""Of all samplers together: every id is a label value of the metrics."""
SEPARATOR: Final = "@"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=,+-]{0,63}")
_HOW: Final = 'Write {"aks@t1=0.2": {}} or {"aks@sharp": {"t1": 0.2}}.'


def base_id(sampler_id: str) -> str:
    """The id of the sampler that `sampler_id` is a variant of; its own where it is none."""
    return sampler_id.partition(SEPARATOR)[0]


def is_variant(sampler_id: str) -> bool:
    return SEPARATOR in sampler_id


def split_ids(text: str) -> list[str]:
    """The ids in a comma-separated list such as `aks,aks@t1=0.2,all_depth=3,bolt`: three.

    `option=value` belongs to the variant before it: nothing else has a comma in its name. An empty
    part is an id of its own, which no sampler has.
    """
    ids: list[str] = []
    for part in text.split(","):
        if ids and is_variant(ids[-1]) and not is_variant(part) and "=" in part:
            ids[-1] += f",{part}"
        else:
            ids.append(part)
    return ids


def variant_options(
    entry: SamplerEntry, sampler_id: str, given: Mapping[str, object]
) -> dict[str, object]:
    """The options of the variant `sampler_id` of `entry`: those `given`, and those in its name.

    Raises `InvalidOptionsError` for a name that is none, that contradicts what is given, or that
    says nothing where nothing is given.
    """
    _, _, name = sampler_id.partition(SEPARATOR)
    if not _NAME.fullmatch(name):
        raise InvalidOptionsError(
            "the name behind @ must be 1 to 64 letters, digits and . _ = , + -, and begin with a "
            f"letter or digit. {_HOW}"
        )
    named = _options_in(entry, name)
    if not named and not given:
        raise InvalidOptionsError(f"it has no options of its own. {_HOW}")
    options = dict(given)
    for option, value in named.items():
        if options.setdefault(option, value) != value:
            raise InvalidOptionsError(
                f"its name says {option}={value!r}, its options say {options[option]!r}. "
                "Leave the option out, or name the variant otherwise."
            )
    return options


def _options_in(entry: SamplerEntry, name: str) -> dict[str, object]:
    """The options that a name of the form `option=value[,option=value]` says; else none."""
    if "=" not in name and "," not in name:
        return {}
    named: dict[str, object] = {}
    for part in name.split(","):
        option, equals, text = part.partition("=")
        if not option or not equals or not text:
            raise InvalidOptionsError(
                f"a name with = or , is read as option=value[,option=value], and {part!r} is none. "
                f"{_HOW}"
            )
        if option in named:
            raise InvalidOptionsError(f"its name says {option!r} twice")
        named[option] = option_from_text(entry.sampler_class.Options, option, text)
    return named
