"""The flag keys and the fixed words of a decision."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

SAMPLER: Final = "video.sampler"
"""String flag: the id of the sampler that serves the answer."""
SHADOW: Final = "video.sampler.shadow"
"""String flag: the id of the sampler that runs in shadow, or `OFF`."""
SHADOW_RATE: Final = "video.sampler.shadow_rate"
"""Number flag, 0..1: the share of answers that are also run in shadow."""
SHADOW_ANSWER_RATE: Final = "video.sampler.shadow_answer_rate"
"""Number flag, 0..1: the share of those whose shadow frames are answered, too. May be missing."""
ALL_KEYS: Final = (SAMPLER, SHADOW, SHADOW_RATE, SHADOW_ANSWER_RATE)
RATE_KEYS: Final = frozenset({SHADOW_RATE, SHADOW_ANSWER_RATE})

BASELINE: Final = "uniform"
"""Where rollback, the kill switch and every failure lead."""
OFF: Final = "off"


class Reason(StrEnum):
    """Why a decision came out as it did: OpenFeature's own words, and two of Framegate's."""

    KILL_SWITCH = "KILL_SWITCH"
    OVERRIDE = "OVERRIDE"
    SPLIT = "SPLIT"
    """The user was dealt to an arm of the rollout rule. The only reason that is an exposure."""
    TARGETING_MATCH = "TARGETING_MATCH"
    """A condition of the rule named the variant; no dealing took place."""
    DEFAULT = "DEFAULT"
    """There is a rule, and it did not apply: the default arm."""
    STATIC = "STATIC"
    """There is no rule: everyone gets the default variant."""
    DISABLED = "DISABLED"
    ERROR = "ERROR"
