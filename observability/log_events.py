"""Log events with fixed members: what a flag said, and what an answer looked at."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from observability.logs import log_event
from observability.names import Event, FeatureFlagAttribute


def hash_user_id(salt: str, tenant: str, user_id: str) -> str:
    """32 hex digits that stand for a user in logs; the same user always gets the same ones.

    Keyed with the salt, so that a list of known user ids does not reveal who is who.
    """
    # The length keeps ("a", "b/c") and ("a/b", "c") apart; JSON may carry lone surrogates.
    user = f"{len(tenant)}:{tenant}/{user_id}".encode("utf-8", "surrogatepass")
    return hmac.new(salt.encode("utf-8", "surrogatepass"), user, hashlib.sha256).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagEvaluation:
    """One flag decision. `user_hash` comes from `hash_user_id`, never the user id itself."""

    key: str
    value: str
    reason: str
    variant: str | None = None
    provider: str | None = None
    version: str | None = None
    set_id: str | None = None
    user_hash: str | None = None
    error: str | None = None
    salt: str | None = None
    bucketing_engine: str | None = None


def log_flag_evaluation(logger: logging.Logger, evaluation: FlagEvaluation) -> None:
    """The event `feature_flag.evaluation` of OpenTelemetry's conventions; a warning on an error."""
    members: dict[str, object] = {
        FeatureFlagAttribute.KEY: evaluation.key,
        FeatureFlagAttribute.VALUE: evaluation.value,
        FeatureFlagAttribute.REASON: evaluation.reason.lower(),
        FeatureFlagAttribute.VARIANT: evaluation.variant,
        FeatureFlagAttribute.PROVIDER: evaluation.provider,
        FeatureFlagAttribute.VERSION: evaluation.version,
        FeatureFlagAttribute.SET_ID: evaluation.set_id,
        FeatureFlagAttribute.CONTEXT_ID: evaluation.user_hash,
        FeatureFlagAttribute.ERROR: evaluation.error,
        "framegate.flag.salt": evaluation.salt,
        "framegate.flag.bucketing_engine": evaluation.bucketing_engine,
    }
    given = {str(name): value for name, value in members.items() if value is not None}
    level = logging.WARNING if evaluation.error else logging.INFO
    log_event(logger, Event.FLAG_EVALUATION, level=level, exc_info=None, **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionTrace:
    """The index trace of one selection: which frames one answer looked at, and why these."""

    answer_id: str
    video_id: str
    sampler_id: str
    sampler_version: str
    reason: str
    budget: int
    limited_by: str
    indices: Sequence[int]
    seconds: Sequence[float]
    num_candidates: int
    variant: str | None = None
    fallback: str | None = None
    user_hash: str | None = None


def log_selection(logger: logging.Logger, selection: SelectionTrace) -> None:
    """The event `answer.selected`. Holds no text of the question."""
    log_event(
        logger,
        Event.ANSWER_SELECTED,
        answer_id=selection.answer_id,
        video_id=selection.video_id,
        sampler=selection.sampler_id,
        sampler_version=selection.sampler_version,
        variant=selection.variant,
        reason=selection.reason.lower(),
        fallback=selection.fallback,
        budget=selection.budget,
        limited_by=selection.limited_by,
        num_candidates=selection.num_candidates,
        num_frames=len(selection.indices),
        indices=selection.indices,
        seconds=[round(second, 3) for second in selection.seconds],
        user_hash=selection.user_hash,
    )
