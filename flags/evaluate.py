"""The one place where a sampler is chosen.

`decision = flags.sampler_for(user, context)`: kill switch, then operator's override, then flag. It
never raises; whatever goes wrong gives the baseline, with the reason and the error in the decision.
"""

from __future__ import annotations

import importlib.metadata
import logging
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagEvaluationDetails
from openfeature.provider import FeatureProvider

from flags.keys import (
    BASELINE,
    OFF,
    SAMPLER,
    SHADOW,
    SHADOW_ANSWER_RATE,
    SHADOW_RATE,
    Reason,
)
from flags.kill_switch import KillSwitch
from flags.provider import FLAG_SET_METADATA, SALT_METADATA, VERSION_METADATA


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. Without a `user_id` the answer gets the default arm and is no exposure."""

    tenant: str
    user_id: str | None = None

    @property
    def targeting_key(self) -> str | None:
        """What a user is dealt by: the same key always gets the same arm."""
        return f"{self.tenant}/{self.user_id}" if self.user_id else None


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What else a decision depends on. `attributes` can be read by the conditions of a targeting
    rule."""

    known_samplers: frozenset[str]
    override: str | None = None
    attributes: Mapping[str, str | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which sampler serves the answer, why, and everything needed to deal the same user again."""

    sampler_id: str
    reason: str
    variant: str | None = None
    flag_key: str = SAMPLER
    flag_version: str | None = None
    """`version@digest` of the flags that were evaluated; None where none were."""
    flag_set_id: str | None = None
    """The file's own `metadata.flagSetId`."""
    salt: str | None = None
    """None: users are dealt by [flag key, targeting key], or nobody is dealt."""
    engine_version: str
    """Version of openfeature-flagd-core; its dealing has changed between releases."""
    provider_name: str
    has_targeting_key: bool
    is_exposure: bool = False
    """The rollout rule dealt this user to an arm."""
    error: str | None = None
    shadow_sampler_id: str | None = None
    shadow_rate: float = 0.0
    """0..1, the share of answers to run in shadow; 0 where there is no shadow sampler."""
    shadow_answer_rate: float = 0.0
    """0..1, the share of those whose shadow frames are answered, too."""
    shadow_error: str | None = None


class Flags:
    """Chooses samplers. Built once with its provider and kill switch; shared by threads."""

    def __init__(self, provider: FeatureProvider, kill_switch: KillSwitch) -> None:
        # OpenFeature logs a whole traceback for each failed evaluation; the decision carries the
        # error.
        logging.getLogger("openfeature").setLevel(logging.CRITICAL + 1)
        # A domain of its own: the SDK's registry is global, and would swap one instance's provider.
        domain = f"framegate-{uuid.uuid4().hex}"
        api.set_provider_and_wait(provider, domain)
        self._client = api.get_client(domain)
        self._kill_switch = kill_switch
        self._provider_name = provider.get_metadata().name
        self._engine_version = importlib.metadata.version("openfeature-flagd-core")

    def sampler_for(self, user: User, context: RequestContext) -> Decision:
        """Decide which sampler serves one answer. Never raises; costs about 0.1 ms."""
        if self._kill_switch.read().is_on:
            return self._fixed(user, BASELINE, Reason.KILL_SWITCH)
        if context.override in context.known_samplers:
            return self._fixed(user, context.override, Reason.OVERRIDE)
        if context.override is not None:
            error = f"unknown sampler {context.override!r} was asked for"
            return self._fixed(user, BASELINE, Reason.ERROR, error)
        return self._from_flags(user, context)

    def _fixed(
        self, user: User, sampler_id: str, reason: Reason, error: str | None = None
    ) -> Decision:
        return Decision(
            sampler_id=sampler_id,
            reason=reason,
            engine_version=self._engine_version,
            provider_name=self._provider_name,
            has_targeting_key=user.targeting_key is not None,
            error=error,
        )

    def _from_flags(self, user: User, context: RequestContext) -> Decision:
        evaluation = EvaluationContext(
            user.targeting_key, {**context.attributes, "tenant": user.tenant}
        )
        details = self._client.get_string_details(SAMPLER, BASELINE, evaluation)
        error = _error(details)
        if error is None and details.reason != Reason.DISABLED:
            error = _refusal(details.value, context.known_samplers)
        shadow = self._shadow(evaluation, context) if error is None else _Shadow()
        return Decision(
            sampler_id=BASELINE if error else details.value,
            variant=None if error else details.variant,
            reason=Reason.ERROR if error else str(details.reason),
            flag_version=_text(details, VERSION_METADATA),
            flag_set_id=_text(details, FLAG_SET_METADATA),
            salt=_text(details, SALT_METADATA),
            engine_version=self._engine_version,
            provider_name=self._provider_name,
            has_targeting_key=user.targeting_key is not None,
            is_exposure=error is None and details.reason == Reason.SPLIT,
            error=error,
            shadow_sampler_id=shadow.sampler_id,
            shadow_rate=shadow.rate,
            shadow_answer_rate=shadow.answer_rate,
            shadow_error=shadow.error,
        )

    def _shadow(self, evaluation: EvaluationContext, context: RequestContext) -> _Shadow:
        details = self._client.get_string_details(SHADOW, OFF, evaluation)
        if error := _error(details) or _refusal(details.value, context.known_samplers | {OFF}):
            return _Shadow(error=error)
        if details.value == OFF:
            return _Shadow()
        rate = self._client.get_float_details(SHADOW_RATE, 0.0, evaluation)
        answer_rate = self._client.get_float_details(SHADOW_ANSWER_RATE, 0.0, evaluation)
        is_given = answer_rate.error_code is not ErrorCode.FLAG_NOT_FOUND
        if error := _rate_error(rate) or (_rate_error(answer_rate) if is_given else None):
            return _Shadow(error=error)
        return _Shadow(details.value, rate.value, answer_rate.value)


@dataclass(frozen=True, slots=True)
class _Shadow:
    sampler_id: str | None = None
    rate: float = 0.0
    answer_rate: float = 0.0
    error: str | None = None


def _rate_error(details: FlagEvaluationDetails[float]) -> str | None:
    if error := _error(details):
        return error
    if not (math.isfinite(details.value) and 0 <= details.value <= 1):
        return f"{details.flag_key} {details.value!r} is outside 0..1"
    return None


def _error(details: FlagEvaluationDetails[str] | FlagEvaluationDetails[float]) -> str | None:
    if details.error_code is None:
        return None
    return f"{details.error_code}: {details.error_message or details.flag_key}"


def _text(details: FlagEvaluationDetails[str], key: str) -> str | None:
    value = details.flag_metadata.get(key)
    return None if value is None else str(value)


def _refusal(sampler_id: str, known_samplers: frozenset[str]) -> str | None:
    return None if sampler_id in known_samplers else f"unknown sampler {sampler_id!r} is served"
