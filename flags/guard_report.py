"""What one look at a rollout's guards found, in figures and in words for an operator."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from flags.rollout_plan import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCount:
    """How much of an arm is in the evidence: closed users of the running stage, their answers."""

    users: int
    answers: int
    open_users: int = 0
    """Asked already, and are counted once closed."""
    first_closes_s: float | None = None
    """When the first of those is closed, at the latest; None without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigure:
    """A guard's figure in one arm, in the figure's own unit."""

    users: int
    """Closed users for whom the figure is known."""
    estimate: float | None
    """None without users."""
    lower: float
    upper: float
    """One-sided confidence bounds that hold at all looks; infinite where nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardResult:
    """One guard at one look."""

    guard: str
    """As `guard_text` writes it."""
    verdict: Verdict
    is_proven: bool
    """A pass or a fail that the bounds show; False for a pass that rests on the estimate."""
    decides: bool
    """Whether its fail rolls back: False for a dry run and for shadow relevance."""
    is_required: bool
    """Whether the stage is held until it passes: False for a dry run, and without an other arm."""
    is_relative: bool
    """Whether it compares the arms."""
    candidate: ArmFigure
    control: ArmFigure
    reason: str
    """One sentence for an operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRatio:
    """Whether the users were dealt as the flag says."""

    expected_share: float
    """The candidate's weight, 0..1."""
    observed_share: float | None
    users: int
    users_in_both_arms: int
    """Dealt to both arms within this stage, which the flag file excludes."""
    p_value: float
    """Valid at any look."""
    is_mismatch: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReport:
    """One look: what to do, and why."""

    verdict: Verdict
    """PASS: the stage may be left. FAIL: roll back. INCONCLUSIVE: hold."""
    must_pause: bool
    """Hold and tell a person: more data will not help. Only with INCONCLUSIVE."""
    reason: str
    """What was found or what is missing, in words for an operator."""
    at_s: float
    weight: int
    epoch: int
    candidate: ArmCount
    control: ArmCount
    guards: tuple[GuardResult, ...]
    sample_ratio: SampleRatio

    @property
    def failing(self) -> tuple[str, ...]:
        """The guards whose fail rolls back."""
        is_mismatch = self.sample_ratio.is_mismatch
        return tuple(
            result.guard
            for result in self.guards
            if result.decides
            and result.verdict is Verdict.FAIL
            and not (is_mismatch and result.is_relative)
        )

    def to_document(self) -> dict[str, object]:
        """JSON-able, without NaN or infinities: those become None."""
        return {key: _finite(value) for key, value in asdict(self).items()}


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, tuple | list) else value
