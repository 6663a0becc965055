"""Notices what happens to a rollout from outside: the kill switch, and edits of the flag file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flags.check import RefusedFlagsError, parse_flag_text
from flags.flag_edit import Serving, UneditableFlagsError, read_serving
from flags.guard_report import GuardReport
from flags.rollout_changes import (
    INTERRUPTIONS,
    RESUME_AFTER_EDIT,
    Cause,
    Change,
    automatic,
    evidence_of,
    paused,
    serving_text,
)
from flags.rollout_flags import serves_only_arms
from flags.rollout_journal import cause_of, is_foreign
from flags.rollout_needs import RolloutNeeds
from flags.rollout_plan import Rollout, RolloutStep, Verdict

UNREADABLE_GRACE_S = 10.0
"""An editor that saves in place leaves half a file for a moment; only one that stays is news."""
UNANSWERED: Final = "unanswered"
"""Key of a pause's evidence: a guard fails, and the controller may not roll back."""
_MEND_FIRST: Final = (
    "The flags that were good last stay in force, and after a restart of the gateway `uniform` for "
    "everyone. Until the file is mended `resume` and `rollback` are refused; "
    "`framegate kill-switch on --why …` is the way back."
)


class Interruptions:
    """Hold the editor's lock around every call."""

    def __init__(self, needs: RolloutNeeds) -> None:
        self._needs = needs
        self._unreadable_since_s: float | None = None
        self._unreadable = ""

    def content(self) -> bytes | None:
        """The flag file; None while it is away or no JSON."""
        try:
            content = self._needs.editor.read()
            parse_flag_text(content)
        except (UneditableFlagsError, RefusedFlagsError) as exc:
            self._unreadable = str(exc)
        else:
            self._unreadable_since_s = None
            return content
        if self._unreadable_since_s is None:
            self._unreadable_since_s = self._needs.clock()
        return None

    def may_roll_back(self, rollout: Rollout, content: bytes) -> bool:
        """Whether a failing guard may take the candidate out of this file: it can be used, and
        deals nothing but the rollout's arms. Another weight is no reason to go on hurting users;
        a file that serves something else is somebody's decision."""
        serving = self._serving(rollout, content)
        is_killed = self._needs.kill_switch.read().is_on
        return not is_killed and serving is not None and serves_only_arms(rollout, serving)

    def unanswered(
        self,
        rollout: Rollout,
        steps: Sequence[RolloutStep],
        content: bytes | None,
        report: GuardReport,
    ) -> Change | None:
        """Says, once in an interruption, that a guard fails and nobody will roll back."""
        is_told = bool(steps[-1].evidence.get(UNANSWERED))
        is_killed = self._needs.kill_switch.read().is_on
        if report.verdict is not Verdict.FAIL or not is_interrupted(steps) or is_told or is_killed:
            return None
        candidate = rollout.plan.candidate
        serving = self._serving(rollout, content)
        if serving is None:
            way = f"the flag file cannot be used. {_MEND_FIRST}"
        elif candidate in serving.samplers:
            way = (
                "the flag file serves something that is not the rollout's. "
                f"`framegate rollout rollback` takes `{candidate}` out of it."
            )
        else:
            return None
        why = f"A guard fails, and nobody will roll back: {way} {report.reason}"
        evidence = {UNANSWERED: True, **evidence_of(report)}
        return paused(rollout, Cause(str(cause_of(steps[-1]))), automatic(why), evidence)

    def change(
        self, rollout: Rollout, steps: Sequence[RolloutStep], content: bytes | None
    ) -> Change | None:
        """The pause that is due, if any; never a second one while an interruption lasts."""
        if is_interrupted(steps):
            return None
        switch = self._needs.kill_switch.read()
        if switch.is_on:
            why = (
                f"The kill switch was set ({switch.who}: {switch.why}): `uniform` for everyone, as "
                "long as it is on; then the flag file deals the users again. "
                "`framegate rollout resume` deals them anew, with a new salt and a new epoch; "
                "`framegate rollout rollback` ends the rollout."
            )
            return paused(rollout, Cause.KILL_SWITCH, automatic(why))
        edited = self._edit_by_hand(rollout, steps[-1], content)
        return None if edited is None else paused(rollout, Cause.FLAG_EDIT, automatic(edited))

    def _edit_by_hand(
        self, rollout: Rollout, last: RolloutStep, content: bytes | None
    ) -> str | None:
        if content is None:
            since_s = self._unreadable_since_s
            is_new = since_s is None or self._needs.clock() - since_s < UNREADABLE_GRACE_S
            problem = f"The flag file cannot be used: {self._unreadable} {_MEND_FIRST}"
            return None if is_new else problem
        if not is_foreign(last, content):
            return None
        edited = "The flag file was edited by hand."
        try:
            found = serving_text(read_serving(content, self._known(rollout)))
        except UneditableFlagsError as exc:
            return f"{edited} It is of no use now: {exc} {_MEND_FIRST}"
        return f"{edited} {found} {RESUME_AFTER_EDIT}"

    def _serving(self, rollout: Rollout, content: bytes | None) -> Serving | None:
        try:
            return None if content is None else read_serving(content, self._known(rollout))
        except UneditableFlagsError:
            return None

    def _known(self, rollout: Rollout) -> frozenset[str]:
        # The candidate may have been uninstalled meanwhile, which must not keep it in place.
        return self._needs.known_samplers | {rollout.plan.candidate}


def is_interrupted(steps: Sequence[RolloutStep]) -> bool:
    """Whether the rollout is paused because users left their arms."""
    return cause_of(steps[-1]) in INTERRUPTIONS
