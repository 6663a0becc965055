"""Whether an answer is compared, and with what: a pure function of its flags and of the load.

Everything that looks like chance comes from a hash of the answer id, so that a decision can be
replayed from the ledger.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from observability.shadow_names import ShadowShed
from shadow.records import ComparisonKind

_HASH_BYTES = 8


class _Draw(StrEnum):
    """Independent draws of one answer."""

    COMPARE = "compare"
    A_A = "a_a"
    ORDER = "order"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowFlags:
    """What the flags said for this answer."""

    control_id: str
    """The sampler that was decided, also where it then failed."""
    shadow_id: str | None
    """None: nothing runs in shadow."""
    rate: float
    """0..1 of all answers."""
    answer_rate: float = 0.0
    """0..1 of the compared ones: also answered by the shadow's frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRules:
    """Of the deployment."""

    baseline_id: str
    """Runs in shadow where the shadow sampler itself served."""
    aa_share: float
    """0..1 of the compared answers: the control against itself."""
    max_running_answers: int
    """Nothing is compared while more answers than this run."""
    tenant_per_minute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowLoad:
    """As it is now."""

    running_answers: int
    tenant_compared: int
    """Comparisons of this answer's tenant that were begun this minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedComparison:
    kind: ComparisonKind
    shadow_id: str
    is_control_first: bool
    """Which of the two runs first; drawn, so that neither always finds warm caches."""
    is_answered: bool
    """The shadow's frames are to be answered, too."""


def plan_comparison(
    answer_id: str, flags: ShadowFlags, rules: ShadowRules, load: ShadowLoad
) -> PlannedComparison | ShadowShed | None:
    """What to compare; None where the flags ask for nothing, a reason where load forbids it.

    The same arguments give the same result. A raised rate only ever adds answers.
    """
    if flags.shadow_id is None or _fraction(_Draw.COMPARE, answer_id) >= flags.rate:
        return None
    if load.running_answers > rules.max_running_answers:
        return ShadowShed.LOAD
    if load.tenant_compared >= rules.tenant_per_minute:
        return ShadowShed.TENANT_CAP
    shadow_id = rules.baseline_id if flags.shadow_id == flags.control_id else flags.shadow_id
    is_against_itself = shadow_id == flags.control_id
    is_aa = is_against_itself or _fraction(_Draw.A_A, answer_id) < rules.aa_share
    return PlannedComparison(
        kind=ComparisonKind.A_A if is_aa else ComparisonKind.SAMPLER,
        shadow_id=flags.control_id if is_aa else shadow_id,
        is_control_first=_fraction(_Draw.ORDER, answer_id) < 0.5,
        is_answered=_fraction(_Draw.ANSWER, answer_id) < flags.answer_rate,
    )


def _fraction(draw: _Draw, answer_id: str) -> float:
    """Uniform in [0, 1): the first 53 bits of SHA-256 of `shadow/<draw>/<answer id>`."""
    digest = hashlib.sha256(f"shadow/{draw}/{answer_id}".encode()).digest()
    # As many as a float holds, so that the quotient never rounds up to 1.
    return (int.from_bytes(digest[:_HASH_BYTES]) >> 11) / (1 << 53)
