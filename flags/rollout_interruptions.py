"""Notices what happens to a rollout from outside: the kill switch, and edits of the flag file."""

from __future__ import annotations

from collections.abc import Sequence

from flags.flag_edit import UneditableFlagsError, read_serving, sampler_digest
from flags.rollout_changes import (
    INTERRUPTIONS,
    RESUME_AFTER_EDIT,
    Cause,
    Change,
    automatic,
    paused,
    serving_text,
)
from flags.rollout_journal import cause_of, is_foreign
from flags.rollout_needs import RolloutNeeds
from flags.rollout_plan import Rollout, RolloutStep

UNREADABLE_GRACE_S = 10.0
"""An editor that saves in place leaves half a file for a moment; only one that stays is news."""


class Interruptions:
    """Hold the editor's lock around every call."""

    def __init__(self, needs: RolloutNeeds) -> None:
        self._needs = needs
        self._unreadable_since_s: float | None = None

    def content(self) -> bytes | None:
        """The flag file; None while it is away or no JSON."""
        try:
            content = self._needs.editor.read()
        except UneditableFlagsError:
            content = b""
        if sampler_digest(content) is not None:
            self._unreadable_since_s = None
            return content
        if self._unreadable_since_s is None:
            self._unreadable_since_s = self._needs.clock()
        return None

    def change(
        self, rollout: Rollout, steps: Sequence[RolloutStep], content: bytes | None
    ) -> Change | None:
        """The pause that is due, if any; never a second one while an interruption lasts."""
        if is_interrupted(steps):
            return None
        switch = self._needs.kill_switch.read()
        if switch.is_on:
            why = (
                f"The kill switch is on ({switch.who}: {switch.why}): everyone gets `uniform`. "
                "Once it is off, `framegate rollout resume` deals the users anew, with a new salt "
                "and a new epoch; `framegate rollout rollback` ends the rollout."
            )
            return paused(rollout, Cause.KILL_SWITCH, automatic(why))
        problem = self._edit_by_hand(rollout, steps[-1], content)
        if problem is None:
            return None
        why = f"The flag file was edited by hand. {problem} {RESUME_AFTER_EDIT}"
        return paused(rollout, Cause.FLAG_EDIT, automatic(why))

    def _edit_by_hand(
        self, rollout: Rollout, last: RolloutStep, content: bytes | None
    ) -> str | None:
        if content is None:
            since_s = self._unreadable_since_s
            is_new = since_s is None or self._needs.clock() - since_s < UNREADABLE_GRACE_S
            return None if is_new else "It is missing or no JSON; the last good flags are in force."
        if not is_foreign(last, content):
            return None
        known = self._needs.known_samplers | {rollout.plan.candidate}
        try:
            return serving_text(read_serving(content, known))
        except UneditableFlagsError as exc:
            return f"It is of no use now: {exc}"


def is_interrupted(steps: Sequence[RolloutStep]) -> bool:
    """Whether the rollout is paused because users left their arms."""
    return cause_of(steps[-1]) in INTERRUPTIONS
