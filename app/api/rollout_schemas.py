"""Rollouts on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from flags.guard_report import GuardReport
from flags.guard_text import guard_text, parse_guard
from flags.rollout import StartRequest
from flags.rollout_defaults import (
    DEFAULT_DWELL_S,
    DEFAULT_GUARDS,
    DEFAULT_MIN_ANSWERS,
    DEFAULT_MIN_USERS,
    DEFAULT_STAGES,
)
from flags.rollout_plan import EpochFacts, Rollout, RolloutState, RolloutStep, StepKind, Verdict
from flags.rollout_text import Outlook
from flags.targeting import TOTAL_WEIGHT

YEAR_S = 31_536_000.0
LARGEST_COUNT = 1_000_000_000
WEIGHT_AT_THE_END: Final = {RolloutState.COMPLETED: TOTAL_WEIGHT, RolloutState.ROLLED_BACK: 0}


def _checked_guard(text: str) -> str:
    parse_guard(text)
    return text


GuardText = Annotated[str, AfterValidator(_checked_guard)]
Who = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=256),
    Field(description="Your name."),
]
Why = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=1000),
    Field(description="Kept in the audit log."),
]


class StartBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [
                {"candidate": "bolt", "who": "ana", "why": "better on the offline set, 3 points"}
            ]
        },
    )

    candidate: str = Field(description="The id of a sampler or variant.")
    stages: list[int] = Field(
        list(DEFAULT_STAGES), description="Percent of the users, rising, at most 100."
    )
    dwell_s: float = Field(
        DEFAULT_DWELL_S, ge=0, le=YEAR_S, description="Least time in a stage; at most a year."
    )
    min_users: int = Field(
        DEFAULT_MIN_USERS, ge=1, le=LARGEST_COUNT, description="In each arm, in each stage."
    )
    min_answers: int = Field(
        DEFAULT_MIN_ANSWERS, ge=1, le=LARGEST_COUNT, description="In each arm, in each stage."
    )
    guards: list[GuardText] = Field(
        list(DEFAULT_GUARDS), max_length=32, description="docs/guards.md has the grammar."
    )
    false_alarm_rate: float = Field(
        0.05, gt=0, lt=0.5, description="Of the whole rollout: all guards, all looks."
    )
    user_window_s: float = Field(
        600.0,
        gt=0,
        le=YEAR_S,
        description="A user is counted so long after the first answer, or ...",
    )
    user_answers: int = Field(5, ge=1, le=LARGEST_COUNT, description="... after so many answers.")
    who: Who
    why: Why

    def request(self) -> StartRequest:
        return StartRequest(
            candidate=self.candidate,
            stages=tuple(self.stages),
            dwell_s=self.dwell_s,
            min_users=self.min_users,
            min_answers=self.min_answers,
            guards=tuple(map(parse_guard, self.guards)),
            false_alarm_rate=self.false_alarm_rate,
            user_window_s=self.user_window_s,
            user_answers=self.user_answers,
        )


class CommandBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"who": "ana", "why": "looks good"}]}
    )

    who: Who
    why: Why


class RollbackBody(CommandBody):
    to: str | None = Field(
        None, description="The sampler that everyone gets; default: the control."
    )


class ScoreBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [
                {
                    "sampler": "bolt",
                    "score": 0.61,
                    "dataset": "our-200-questions",
                    "num_questions": 200,
                    "who": "ana",
                    "why": "run of 2026-11-30",
                }
            ]
        },
    )

    sampler: str = Field(description="The id of a sampler or variant.")
    score: float = Field(ge=0, le=1, description="Higher is better.")
    dataset: str = Field(min_length=1, max_length=256)
    num_questions: int = Field(ge=1, le=LARGEST_COUNT)
    who: Who
    why: Why


class ScoreDocument(BaseModel):
    sampler: str
    version: str | None = Field(description="Of the sampler; null: holds for any.")
    score: float
    dataset: str
    num_questions: int
    who: str
    why: str
    at: str


class RecordedScoreDocument(ScoreDocument):
    next: str = Field(description="What comes next: a score that is missing, or the start.")


class ScoreListing(BaseModel):
    scores: list[ScoreDocument]


class ArmDocument(BaseModel):
    """One arm's figure."""

    users: int = Field(description="Users for whom it is known.")
    estimate: float | None
    lower: float | None = Field(description="Confidence bounds that hold at every look.")
    upper: float | None


class GuardDocument(BaseModel):
    guard: str
    verdict: Verdict
    is_proven: bool = Field(description="By the bounds, not only by the estimate.")
    decides: bool = Field(description="Its fail rolls back.")
    is_required: bool = Field(description="The stage waits until it passes.")
    is_relative: bool = Field(description="It compares the arms.")
    candidate: ArmDocument
    control: ArmDocument
    reason: str


class CountDocument(BaseModel):
    users: int = Field(description="Closed ones.")
    answers: int = Field(description="Theirs.")
    open_users: int = Field(description="Asked already; counted once closed.")
    first_closes_s: float | None = Field(
        description="Seconds since the epoch: when the first of those is counted, at the latest."
    )


class SampleRatioDocument(BaseModel):
    expected_share: float
    observed_share: float | None
    users: int
    users_in_both_arms: int
    p_value: float | None
    is_mismatch: bool
    reason: str


class ReportDocument(BaseModel):
    """What the guards say now."""

    verdict: Verdict
    must_pause: bool
    reason: str
    at_s: float
    weight: int
    epoch: int
    candidate: CountDocument
    control: CountDocument
    guards: list[GuardDocument]
    sample_ratio: SampleRatioDocument


class StepDocument(BaseModel):
    """One line of the audit log."""

    sequence: int
    kind: StepKind
    at: str
    who: str = Field(description="`framegate` where nobody asked for it.")
    why: str
    old_weight: int | None
    new_weight: int
    stage: int = Field(description="1, 2, ...")
    epoch: int
    salt: str
    flag_digest_before: str = Field(description="sha256 of the flag file.")
    flag_digest_after: str
    evidence: dict[str, Any] = Field(description="What the guards said, what was edited.")


class HistoryDocument(BaseModel):
    steps: list[StepDocument]


class FactsDocument(BaseModel):
    """What must stay the same while exposures are analysed together."""

    candidate_version: str
    control_version: str
    encoder_id: str
    reducer_id: str
    profile: str
    llm_id: str


class RolloutSummary(BaseModel):
    rollout_id: str
    candidate: str
    control: str
    state: RolloutState
    stage: int = Field(description="1, 2, ...; of a rollout that is over: its last.")
    stages: list[int]
    weight: int = Field(
        description="Percent of the users that the rollout gives the candidate: the stage's while "
        "it runs or is paused, 100 once completed, 0 once rolled back."
    )
    reason: str = Field(description="Why it is in this state.")


class RolloutDocument(RolloutSummary):
    next: str = Field(description="What comes next.")
    next_at: str | None = Field(description="Not before; ISO 8601.")
    epoch: int
    salt: str
    started: str
    started_by: str
    stage_started: str = Field(description="Since when answers count for the stage.")
    dwell_s: float
    min_users: int
    min_answers: int
    guards: list[str]
    false_alarm_rate: float
    facts: FactsDocument
    flags: str = Field(description="What the flag file says now.")
    report: ReportDocument | None = Field(description="Null once the rollout is over.")
    last_step: StepDocument = Field(description="How it came to this state: who, when, why.")


class RolloutListing(BaseModel):
    rollouts: list[RolloutSummary]


def summary_document(rollout: Rollout) -> RolloutSummary:
    return RolloutSummary(**_summary(rollout))


def rollout_document(
    rollout: Rollout,
    steps: Sequence[RolloutStep],
    report: GuardReport | None,
    ahead: Outlook,
    flags: str,
) -> RolloutDocument:
    """`steps`: all of them, in their order."""
    plan = rollout.plan
    return RolloutDocument(
        **_summary(rollout),
        next=ahead.next,
        next_at=None if ahead.next_at_s is None else iso(ahead.next_at_s),
        epoch=rollout.epoch,
        salt=rollout.salt,
        started=iso(steps[0].at_s),
        started_by=steps[0].who,
        stage_started=iso(rollout.stage_started_s),
        dwell_s=plan.dwell_s,
        min_users=plan.min_users,
        min_answers=plan.min_answers,
        guards=[guard_text(guard) for guard in plan.guards],
        false_alarm_rate=plan.false_alarm_rate,
        facts=_facts(rollout.facts),
        flags=flags,
        report=None if report is None else ReportDocument.model_validate(report.to_document()),
        last_step=step_document(steps[-1]),
    )


def step_document(step: RolloutStep) -> StepDocument:
    return StepDocument(
        sequence=step.sequence,
        kind=step.kind,
        at=iso(step.at_s),
        who=step.who,
        why=step.why,
        old_weight=step.old_weight,
        new_weight=step.new_weight,
        stage=step.stage + 1,
        epoch=step.epoch,
        salt=step.salt,
        flag_digest_before=step.flag_digest_before,
        flag_digest_after=step.flag_digest_after,
        evidence=dict(step.evidence),
    )


def iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def _summary(rollout: Rollout) -> dict[str, Any]:
    return {
        "rollout_id": rollout.rollout_id,
        "candidate": rollout.plan.candidate,
        "control": rollout.plan.control,
        "state": rollout.state,
        "stage": rollout.stage + 1,
        "stages": list(rollout.plan.stages),
        "weight": WEIGHT_AT_THE_END.get(rollout.state, rollout.weight),
        "reason": rollout.reason,
    }


def _facts(facts: EpochFacts) -> FactsDocument:
    return FactsDocument(
        candidate_version=facts.candidate_version,
        control_version=facts.control_version,
        encoder_id=facts.encoder_id,
        reducer_id=facts.reducer_id,
        profile=facts.profile,
        llm_id=facts.llm_id,
    )
