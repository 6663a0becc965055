"""Which sampler answers, decided once per answer in `flags/`; here it is logged and counted."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from app.question import Question
from flags.evaluate import Decision, Flags, RequestContext, User
from observability.log_events import FlagEvaluation, hash_user_id, log_flag_evaluation
from observability.metrics import Metrics

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SamplerDecider:
    flags: Flags
    known_samplers: frozenset[str]
    metrics: Metrics
    user_hash_salt: str

    def decide(self, question: Question) -> Decision:
        """Never raises; whatever is wrong with the flags gives the baseline."""
        user = User(question.tenant, question.user_id)
        context = RequestContext(self.known_samplers, question.sampler_override)
        decision = self.flags.sampler_for(user, context)
        self.metrics.flag_evaluated(decision.reason)
        log_flag_evaluation(
            logger,
            FlagEvaluation(
                key=decision.flag_key,
                value=decision.sampler_id,
                reason=decision.reason,
                variant=decision.variant,
                provider=decision.provider_name,
                version=decision.flag_version,
                user_hash=self.user_hash(question),
                error=decision.error,
                salt=decision.salt,
                bucketing_engine=decision.engine_version,
            ),
        )
        return decision

    def user_hash(self, question: Question) -> str | None:
        if question.user_id is None:
            return None
        return hash_user_id(self.user_hash_salt, question.tenant, question.user_id)
