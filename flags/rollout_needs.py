"""What a rollout needs: Protocols that `app/` implements; and how it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from flags.guard_report import GuardReport
from flags.kill_switch import KillSwitch
from flags.outcomes import Outcomes
from flags.rollout_plan import EpochFacts, Guard, IntentRecord, Rollout, RolloutStep


class RolloutRefusedError(Exception):
    """The command would do harm or makes no sense now. Each reason says what to do instead."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(" ".join(reasons))
        self.reasons = tuple(reasons)


class NoSuchRolloutError(Exception):
    """No rollout has that id."""


class RolloutStore(Protocol):
    """Every call is one transaction, committed before it returns."""

    def active_rollout(self) -> Rollout | None:
        """The one that is running or paused."""
        ...

    def find_rollout(self, rollout_id: str) -> Rollout | None: ...

    def list_rollouts(self) -> Sequence[Rollout]: ...

    def rollout_steps(self, rollout_id: str) -> Sequence[RolloutStep]:
        """In their order."""
        ...

    def save_rollout(self, rollout: Rollout, step: RolloutStep) -> None:
        """The new state and its step at once; a sequence that exists already is refused."""
        ...

    def put_intent(self, intent: IntentRecord) -> None:
        """Refused while one is open."""
        ...

    def open_intent(self) -> IntentRecord | None: ...

    def close_intent(self) -> None: ...


class FlagEditor(Protocol):
    """The flag file. Both calls raise `UneditableFlagsError`."""

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other editor out, also those in other processes."""
        ...

    def read(self) -> bytes: ...

    def write(self, content: bytes) -> None:
        """Replace the content in one durable step."""
        ...


class OutcomesSource(Protocol):
    def outcomes(self, rollout: Rollout) -> Outcomes:
        """The exposures of the running stage that are known by now."""
        ...


class FactsSource(Protocol):
    def facts(self, candidate: str, control: str) -> EpochFacts | None:
        """What answers are made with now; None while a part of the service cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the recent videos a sampler could serve."""

    num_videos: int
    num_covered: int

    @property
    def share(self) -> float:
        """0..1; 0 where there are no videos."""
        return self.num_covered / self.num_videos if self.num_videos else 0.0


class FeatureCoverage(Protocol):
    def coverage(self, sampler_id: str) -> Coverage:
        """Of the recent videos, those with all features that this sampler reads."""
        ...


class FigureSource(Protocol):
    def why_unmeasurable(self, guard: Guard, candidate: str, control: str) -> str | None:
        """Why this guard's figure cannot be known here now, and what to do; None where it can."""
        ...


@dataclass(frozen=True, slots=True)
class RolloutNeeds:
    """All of it; built once by `app/`."""

    store: RolloutStore
    editor: FlagEditor
    outcomes: OutcomesSource
    facts: FactsSource
    features: FeatureCoverage
    figures: FigureSource
    kill_switch: KillSwitch
    evaluate: Callable[[Rollout, Outcomes, float], GuardReport]
    clock: Callable[[], float]
    """Seconds since the epoch."""
    new_id: Callable[[], str]
    """An id that no rollout had before."""
    known_samplers: frozenset[str]
    why_unusable: Callable[[str], str | None]
    """What a sampler needs and this deployment lacks; None where it may be served."""
