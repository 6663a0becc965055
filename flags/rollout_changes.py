"""The changes that a rollout goes through: pure functions from one state to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from flags.flag_edit import Arms, Serving, put_arms, serve_all
from flags.guard_report import GuardReport
from flags.keys import SAMPLER
from flags.rollout_needs import RolloutRefusedError
from flags.rollout_plan import EpochFacts, Rollout, RolloutPlan, RolloutState, StepKind
from flags.targeting import TOTAL_WEIGHT

RESUME_AFTER_EDIT: Final = (
    "`framegate rollout resume` deals the users anew, with a new salt and a new epoch; "
    "`framegate rollout rollback` ends the rollout."
)


EDIT_S: Final = 0.5
"""How long replacing the flag file may take: answers decided meanwhile belong to neither stage."""


class Cause(StrEnum):
    """Why a rollout was paused: what `resume` has to mend depends on it."""

    OPERATOR = "operator"
    GUARDS = "guards"
    KILL_SWITCH = "kill_switch"
    FLAG_EDIT = "flag_edit"


INTERRUPTIONS: Final = frozenset({Cause.KILL_SWITCH, Cause.FLAG_EDIT})
"""Users left their arm, so that `resume` deals them anew."""


@dataclass(frozen=True, slots=True)
class By:
    """Who wants a step, and why."""

    who: str
    why: str


CONTROLLER: Final = "framegate"
"""Who took a step that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What becomes of `video.sampler`: a split, or one sampler for everyone."""

    arms: Arms | None = None
    everyone: str = ""
    """A sampler id; where `arms` is None."""
    drop: str | None = None
    """A sampler whose variant goes too."""

    def to_document(self) -> dict[str, object]:
        if self.arms is None:
            return {"everyone": self.everyone, "drop": self.drop}
        arms = self.arms
        return {
            "candidate": arms.candidate,
            "control": arms.control,
            "weight": arms.weight,
            "salt": arms.salt,
        }

    @classmethod
    def of_document(cls, document: Mapping[str, object]) -> Edit:
        """What `to_document` made, also after it went through JSON. Raises `ValueError`."""
        match document:
            case {"everyone": str() as everyone, "drop": (str() | None) as drop}:
                return cls(everyone=everyone, drop=drop)
            case {
                "candidate": str() as candidate,
                "control": str() as control,
                "weight": int() as weight,
                "salt": str() as salt,
            }:
                return cls(arms=Arms(candidate, control, weight, salt))
        raise ValueError(f"no edit of the flag file: {document!r}")

    def apply(self, content: bytes, known_samplers: frozenset[str]) -> bytes:
        """The edited flag file. Raises `UneditableFlagsError`."""
        if self.arms is not None:
            return put_arms(content, self.arms, known_samplers)
        return serve_all(content, self.everyone, known_samplers, drop=self.drop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A step to be taken. Without `edit` the flag file stays as it is."""

    rollout: Rollout
    """As it will stand; its `reason` says why."""
    kind: StepKind
    by: By
    old_weight: int | None
    new_weight: int
    edit: Edit | None = None
    evidence: Mapping[str, object] = field(default_factory=dict)


def automatic(why: str) -> By:
    return By(CONTROLLER, why)


def evidence_of(report: GuardReport) -> dict[str, object]:
    """The guards' figures, as a step keeps them."""
    return {"report": report.to_document()}


def arms_of(rollout: Rollout) -> Arms:
    """The split that the flag file has while the rollout stands as it does."""
    return Arms(rollout.plan.candidate, rollout.plan.control, rollout.weight, rollout.salt)


def started(rollout_id: str, plan: RolloutPlan, facts: EpochFacts, now_s: float, by: By) -> Change:
    """The first stage of a rollout whose plan was checked."""
    rollout = Rollout(
        rollout_id=rollout_id,
        plan=plan,
        state=RolloutState.RUNNING,
        stage=0,
        stage_started_s=now_s + EDIT_S,
        epoch=1,
        epoch_started_s=now_s + EDIT_S,
        salt=_salt(rollout_id, 1),
        facts=facts,
        reason=f"Started by {by.who}: {by.why}",
    )
    return Change(
        rollout=rollout,
        kind=StepKind.STARTED,
        by=by,
        old_weight=None,
        new_weight=rollout.weight,
        edit=Edit(arms=arms_of(rollout)),
    )


def raised(rollout: Rollout, now_s: float, by: By, report: GuardReport) -> Change:
    """The next stage; after the last one the candidate is for everyone, also without a user id."""
    evidence = evidence_of(report)
    if rollout.stage + 1 == len(rollout.plan.stages):
        candidate = rollout.plan.candidate
        return Change(
            rollout=replace(
                rollout,
                state=RolloutState.COMPLETED,
                reason=f"Everyone gets `{candidate}`. {by.why}",
            ),
            kind=StepKind.COMPLETED,
            by=by,
            old_weight=rollout.weight,
            new_weight=TOTAL_WEIGHT,
            edit=Edit(everyone=candidate),
            evidence=evidence,
        )
    next_stage = replace(rollout, stage=rollout.stage + 1, stage_started_s=now_s + EDIT_S)
    reason = f"Stage {next_stage.stage + 1}: {next_stage.weight} %. {by.why}"
    next_stage = replace(next_stage, reason=reason)
    return Change(
        rollout=next_stage,
        kind=StepKind.ADVANCED,
        by=by,
        old_weight=rollout.weight,
        new_weight=next_stage.weight,
        edit=Edit(arms=arms_of(next_stage)),
        evidence=evidence,
    )


def paused(
    rollout: Rollout, cause: Cause, by: By, evidence: Mapping[str, object] | None = None
) -> Change:
    """Weights stay; nothing is raised any more."""
    return Change(
        rollout=replace(rollout, state=RolloutState.PAUSED, reason=by.why),
        kind=StepKind.PAUSED,
        by=by,
        old_weight=rollout.weight,
        new_weight=rollout.weight,
        evidence={"cause": str(cause), **(evidence or {})},
    )


def resumed(rollout: Rollout, now_s: float, by: By) -> Change:
    """On in the same stage, its dwell time starting anew."""
    return Change(
        rollout=replace(
            rollout,
            state=RolloutState.RUNNING,
            stage_started_s=now_s,
            reason=f"Resumed by {by.who}: {by.why}",
        ),
        kind=StepKind.RESUMED,
        by=by,
        old_weight=rollout.weight,
        new_weight=rollout.weight,
    )


def dealt_anew(rollout: Rollout, serving: Serving, now_s: float, by: By) -> Change:
    """On in the same stage, with a new salt and a new epoch.

    Raises `RolloutRefusedError` where the flag file serves something that is not the rollout's.
    """
    plan = rollout.plan
    if not is_resumable(rollout, serving):
        raise RolloutRefusedError(
            [
                f"{serving_text(serving)} To go on, give everyone `{plan.control}` again; "
                "to end the rollout and keep the file as it is, `framegate rollout rollback`."
            ]
        )
    epoch = rollout.epoch + 1
    begins_s = now_s + EDIT_S
    change = resumed(rollout, begins_s, by)
    dealt = replace(
        change.rollout, epoch=epoch, epoch_started_s=begins_s, salt=_salt(rollout.rollout_id, epoch)
    )
    found = _served_weight(rollout, serving)
    reason = f"{dealt.reason.removesuffix('.')}. Users were dealt anew"
    if found != dealt.weight:
        reason += f", and the {found} % of the flag file became {dealt.weight} %"
    dealt = replace(dealt, reason=f"{reason}.")
    return replace(change, rollout=dealt, old_weight=found, edit=Edit(arms=arms_of(dealt)))


def is_resumable(rollout: Rollout, serving: Serving) -> bool:
    """Whether the flag file serves nothing but the rollout's arms, the control by default."""
    plan = rollout.plan
    is_ours = serving.samplers <= {plan.candidate, plan.control}
    return serving.is_enabled and is_ours and serving.default == plan.control


def new_epoch(rollout: Rollout, facts: EpochFacts, now_s: float) -> Change:
    """What was seen with other versions is not counted any more; the arms stay."""
    changed = [
        f"{name} {getattr(rollout.facts, name)} → {getattr(facts, name)}"
        for name in EpochFacts.__slots__
        if getattr(rollout.facts, name) != getattr(facts, name)
    ]
    why = f"New epoch: {', '.join(changed)}. The stage begins again."
    return Change(
        rollout=replace(
            rollout,
            epoch=rollout.epoch + 1,
            epoch_started_s=now_s,
            stage_started_s=now_s,
            facts=facts,
            reason=why,
        ),
        kind=StepKind.NEW_EPOCH,
        by=automatic(why),
        old_weight=rollout.weight,
        new_weight=rollout.weight,
    )


def rolled_back(rollout: Rollout, serving: Serving, by: By, to: str | None = None) -> Change:
    """Everyone gets `to`, or the control; a file that serves the candidate to nobody stays."""
    plan = rollout.plan
    is_served = plan.candidate in serving.samplers or _is_split(rollout, serving)
    is_elsewhere = to is not None and serving.everyone != to
    edit = Edit(everyone=to or plan.control, drop=plan.candidate)
    return Change(
        rollout=replace(rollout, state=RolloutState.ROLLED_BACK, reason=by.why),
        kind=StepKind.ROLLED_BACK,
        by=by,
        old_weight=_served_weight(rollout, serving),
        new_weight=0,
        edit=edit if is_served or is_elsewhere else None,
    )


def serving_text(serving: Serving) -> str:
    """What the flag file does, in a sentence."""
    if serving.everyone is not None:
        return f"Everyone gets `{serving.everyone}` by the flag file."
    if serving.arms is None:
        return (
            f"By the flag file, users with a user id get `{serving.without_split}`, "
            f"the others `{serving.default}`."
        )
    arms = serving.arms
    return (
        f"The flag file deals `{arms.candidate}` to {arms.weight} % and `{arms.control}` to "
        f"{TOTAL_WEIGHT - arms.weight} % of the users, by the salt `{arms.salt}`; "
        f"who has no user id gets `{serving.default}`."
    )


def begun_again(rollout: Rollout, now_s: float) -> Rollout:
    """The same rollout, whose running stage begins only now: a crash kept it from beginning."""
    if rollout.state is not RolloutState.RUNNING:
        return rollout
    begins_s = now_s + EDIT_S
    is_new_epoch = rollout.epoch_started_s == rollout.stage_started_s
    epoch_started_s = begins_s if is_new_epoch else rollout.epoch_started_s
    return replace(rollout, stage_started_s=begins_s, epoch_started_s=epoch_started_s)


def _is_split(rollout: Rollout, serving: Serving) -> bool:
    return serving.arms is not None and serving.arms.candidate == rollout.plan.candidate


def _served_weight(rollout: Rollout, serving: Serving) -> int:
    if serving.arms is not None and serving.arms.candidate == rollout.plan.candidate:
        return serving.arms.weight
    return TOTAL_WEIGHT if serving.everyone == rollout.plan.candidate else 0


def _salt(rollout_id: str, epoch: int) -> str:
    return f"{SAMPLER}/{rollout_id}/{epoch}/"
