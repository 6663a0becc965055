"""Carries out the steps of a rollout so that a crash at any point loses and repeats none.

A step that edits the flag file goes: (1) the intent is committed, (2) the file is replaced, (3) the
new state and the step are committed and the intent is closed. After a crash the file's digest tells
whether (2) happened; the step is then finished, or done again from (2). A file that is neither the
old one nor the new one was edited by somebody else and is never overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from flags.check import check_change
from flags.flag_edit import UneditableFlagsError, content_digest, sampler_digest
from flags.rollout_changes import (
    RESUME_AFTER_EDIT,
    Cause,
    Change,
    Edit,
    automatic,
    begun_again,
    paused,
)
from flags.rollout_needs import RolloutNeeds, RolloutRefusedError
from flags.rollout_plan import IntentRecord, RolloutState, RolloutStep, StepKind

FLAGS_EVIDENCE: Final = "flags"
"""Key of a step's evidence: what the step found and left in `video.sampler`."""


class Journal:
    """Hold the editor's lock around every call."""

    def __init__(self, needs: RolloutNeeds) -> None:
        self._needs = needs

    def carry_out(self, change: Change, content: bytes | None) -> RolloutStep:
        """Take the step on a flag file with this `content`; committed when this returns.

        `content` is None where the file cannot be read, which only a step without an edit can
        stand. Raises `RolloutRefusedError` where somebody edited the file meanwhile, and
        `UneditableFlagsError`.
        """
        if change.edit is None:
            step = self._step(change, content, content)
            self._needs.store.save_rollout(change.rollout, step)
            return step
        if content is None:
            raise UneditableFlagsError("the flag file is missing or no JSON. Mend it first.")
        edited = change.edit.apply(content, self._needs.known_samplers)
        findings = check_change(content, edited) if change.kind is StepKind.ADVANCED else []
        if findings:
            raise RolloutRefusedError([f"Users would change arms. {findings[0]}"])
        step = self._step(change, content, edited)
        self._write_ahead(IntentRecord(rollout=change.rollout, step=step), content, edited)
        return step

    def recover(self) -> RolloutStep | None:
        """Finish, or do again, the step that a crash interrupted; the step, if there was one.

        Raises `UneditableFlagsError` where the flag file cannot be read: the step stays open.
        """
        intent = self._needs.store.open_intent()
        if intent is None:
            return None
        steps = self._needs.store.rollout_steps(intent.step.rollout_id)
        if any(step.sequence == intent.step.sequence for step in steps):
            self._needs.store.close_intent()
            return None
        content = self._needs.editor.read()
        if _is_left_by(intent.step, content):
            self._finish(intent)
            return intent.step
        edited = self._edited_again(intent.step, content)
        if edited is None:
            return self._abandon(intent, content)
        return self._redo(intent, content, edited)

    def _write_ahead(self, intent: IntentRecord, content: bytes, edited: bytes) -> None:
        store, editor = self._needs.store, self._needs.editor
        store.put_intent(intent)
        if editor.read() != content:
            store.close_intent()
            raise RolloutRefusedError(
                ["Somebody edited the flag file at this very moment. Look at it, then try again."]
            )
        try:
            editor.write(edited)
        except UneditableFlagsError:
            # Whoever asked is told that it failed, so it must not be done later after all.
            if editor.read() == content:
                store.close_intent()
            raise
        self._finish(intent)

    def _finish(self, intent: IntentRecord) -> None:
        self._needs.store.save_rollout(intent.rollout, intent.step)
        self._needs.store.close_intent()

    def _edited_again(self, step: RolloutStep, content: bytes) -> bytes | None:
        """The edit on what stands there now, which may differ beside `video.sampler`; None where it
        cannot be made any more."""
        if not _is_found_by(step, content):
            return None
        try:
            edit = Edit.of_document(_noted(step)["edit"])
            return edit.apply(content, self._needs.known_samplers)
        except UneditableFlagsError:
            return None

    def _redo(self, intent: IntentRecord, content: bytes, edited: bytes) -> RolloutStep:
        step = replace(
            intent.step,
            flag_digest_before=content_digest(content),
            flag_digest_after=content_digest(edited),
        )
        rollout = begun_again(intent.rollout, self._needs.clock())
        self._needs.store.close_intent()
        self._write_ahead(IntentRecord(rollout=rollout, step=step), content, edited)
        return step

    def _abandon(self, intent: IntentRecord, content: bytes) -> RolloutStep | None:
        """Nobody was told that the step was taken, and the file is somebody else's now."""
        store = self._needs.store
        store.close_intent()
        current = store.find_rollout(intent.step.rollout_id)
        if current is None or current.state is not RolloutState.RUNNING:
            return None
        why = (
            "The flag file was edited by hand while a step was under way, which was given up. "
            + RESUME_AFTER_EDIT
        )
        return self.carry_out(paused(current, Cause.FLAG_EDIT, automatic(why)), content)

    def _step(self, change: Change, before: bytes | None, after: bytes | None) -> RolloutStep:
        rollout = change.rollout
        steps = self._needs.store.rollout_steps(rollout.rollout_id)
        if before is None or after is None:
            # Whether the file is ours can be told only once it is readable again.
            digests = (steps[-1].flag_digest_after,) * 2
            samplers = (_noted(steps[-1]).get("sampler_after"),) * 2
        else:
            digests = (content_digest(before), content_digest(after))
            samplers = (sampler_digest(before), sampler_digest(after))
        flags = {
            "sampler_before": samplers[0],
            "sampler_after": samplers[1],
            "edit": change.edit and change.edit.to_document(),
        }
        return RolloutStep(
            rollout_id=rollout.rollout_id,
            sequence=steps[-1].sequence + 1 if steps else 1,
            kind=change.kind,
            who=change.by.who,
            why=change.by.why,
            at_s=self._needs.clock(),
            old_weight=change.old_weight,
            new_weight=change.new_weight,
            stage=rollout.stage,
            epoch=rollout.epoch,
            salt=rollout.salt,
            flag_digest_before=digests[0],
            flag_digest_after=digests[1],
            evidence={**change.evidence, FLAGS_EVIDENCE: flags},
        )


def cause_of(last_step: RolloutStep) -> str | None:
    """Why the rollout is paused, where its last step paused it."""
    return str(last_step.evidence["cause"]) if last_step.kind is StepKind.PAUSED else None


def is_foreign(last_step: RolloutStep, content: bytes) -> bool:
    """Whether somebody else changed `video.sampler` since the rollout's last step. Edits of other
    flags are nobody's concern."""
    return not _is_left_by(last_step, content)


def _is_left_by(step: RolloutStep, content: bytes) -> bool:
    return content_digest(content) == step.flag_digest_after or _is_sampler(
        step, "sampler_after", content
    )


def _is_found_by(step: RolloutStep, content: bytes) -> bool:
    return content_digest(content) == step.flag_digest_before or _is_sampler(
        step, "sampler_before", content
    )


def _is_sampler(step: RolloutStep, key: str, content: bytes) -> bool:
    digest = sampler_digest(content)
    return digest is not None and _noted(step).get(key) == digest


def _noted(step: RolloutStep) -> Mapping[str, Any]:
    noted = step.evidence.get(FLAGS_EVIDENCE)
    return noted if isinstance(noted, Mapping) else {}
