"""What the recorded offline scores say before a rollout: what is missing, what fails already."""

from __future__ import annotations

from typing import Protocol

from app.stores.ledger import Ledger
from app.stores.ledger_rows import OfflineScore
from flags.guard_report import ArmFigure
from flags.guard_text import guard_text, parse_guard
from flags.guard_verdict import judge_figures
from flags.rollout_plan import Guard, Reference, Verdict

USUAL_GUARD = parse_guard("offline_score>=1x")


class SamplerVersions(Protocol):
    def version(self, sampler_id: str) -> str | None:
        """None for a sampler that is not there."""
        ...


class OfflineScores:
    """Blocks on the ledger; raises `LedgerUnavailableError`."""

    def __init__(self, ledger: Ledger, versions: SamplerVersions) -> None:
        self._ledger = ledger
        self._versions = versions

    def latest(self, sampler_id: str) -> OfflineScore | None:
        """For the version that runs now."""
        version = self._versions.version(sampler_id)
        return None if version is None else latest_score(self._ledger, sampler_id, version)

    def why_unusable(self, guard: Guard, candidate: str, control: str) -> str | None:
        """Why a rollout must not start with this guard; None where it may."""
        is_relative = guard.reference is not Reference.ABSOLUTE
        scores = {one: self.latest(one) for one in ([candidate, control][: 1 + is_relative])}
        missing = [sampler_id for sampler_id, score in scores.items() if score is None]
        if missing:
            commands = ", ".join(f"`framegate rollout score {one} …`" for one in missing)
            return f"No offline score is recorded for {' and '.join(missing)}: {commands} first."
        found = [score for score in scores.values() if score is not None]
        shown = ", ".join(map(_score_text, found))
        if len({_questions_of(score) for score in found}) > 1:
            return (
                f"The offline scores cannot be compared: {shown}. Record both on the same "
                "questions, under one name and number."
            )
        figures = [
            ArmFigure(users=1, estimate=s.score, lower=s.score, upper=s.score) for s in found
        ]
        verdict = judge_figures(guard, figures[0], figures[-1], least_users=1).verdict
        if verdict is not Verdict.FAIL or guard.is_dry_run:
            return None
        return (
            f"`{guard_text(guard)}` fails already, and would roll back at the first look: {shown}. "
            "Record a newer score, or leave the guard out."
        )

    def next_step(self, recorded: OfflineScore, control: str | None) -> str:
        """What to do once a score is recorded. `control`: what everyone gets; None where the flag
        file deals users or cannot be used."""
        candidate: str | None = recorded.sampler_id
        if candidate == control:
            candidate = self._other_on(recorded)
        if candidate is None or control is None:
            other = "CANDIDATE" if control is not None else "OTHER"
            return (
                f"framegate rollout score {other} … --dataset {recorded.dataset} --questions "
                f"{recorded.num_questions}: the other sampler's score, on the same questions."
            )
        reason = self.why_unusable(USUAL_GUARD, candidate, control)
        if reason is not None:
            return f"A rollout of `{candidate}` against `{control}` could not start yet. {reason}"
        return f"framegate rollout start {candidate} … --guard '{guard_text(USUAL_GUARD)}'"

    def _other_on(self, recorded: OfflineScore) -> str | None:
        """Another sampler with a score on the same questions; the one that was recorded last."""
        others = [
            score.sampler_id
            for score in self._ledger.offline_scores()
            if score.sampler_id != recorded.sampler_id
            and _questions_of(score) == _questions_of(recorded)
        ]
        return others[-1] if others else None


def latest_score(ledger: Ledger, sampler_id: str, version: str) -> OfflineScore | None:
    """The offline score that was recorded last for this version, or for whatever version runs."""
    scores = [
        score
        for score in ledger.offline_scores(sampler_id)
        if score.sampler_version in (None, version)
    ]
    return scores[-1] if scores else None


def _questions_of(score: OfflineScore) -> tuple[str, int]:
    return score.dataset, score.num_questions


def _score_text(score: OfflineScore) -> str:
    questions = "1 question" if score.num_questions == 1 else f"{score.num_questions:,} questions"
    return f"`{score.sampler_id}` has {score.score:g} on {score.dataset} ({questions})"
