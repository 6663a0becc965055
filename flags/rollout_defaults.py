"""A rollout as it is when nobody says otherwise."""

from __future__ import annotations

from typing import Final

DEFAULT_STAGES: Final = (1, 5, 25, 50, 100)
DEFAULT_DWELL_S: Final = 3600.0
DEFAULT_MIN_USERS: Final = 200
DEFAULT_MIN_ANSWERS: Final = 500
DEFAULT_GUARDS: Final = (
    "sampler_failure<=1%",
    "fallback<=2%",
    "answer_error<=+1%",
    "selection_s.p95<=+0.2s",
    "total_s.p95<=1.2x",
    "vision_tokens<=1.2x",
    "encoder_device_s<=+0.2s",
)
"""Every one can be measured in every profile. What may be next to nothing in the control, such as
the selection of `uniform`, is limited by a difference, never by a ratio. None is about how good the
answers are: add `answer_agreement`, `feedback` or `offline_score` where they are known."""
