"""Tells an outage of something that both arms need from a fault of the candidate."""

from __future__ import annotations

from typing import Final

import numpy as np

from flags.guard_figures import mean_of_users
from flags.guard_look import Look, error_rate, stage_began_s
from flags.observations import decided_s
from flags.rollout_plan import Figure, Guard, Reference
from flags.statistics import mean_bounds

_BLAMED: Final = frozenset({Figure.FALLBACK, Figure.DEPENDENCY_FAILURE})
"""Figures in which dependency failures count."""
_LEAST_FAILURES: Final = 3
_LEAST_SHARE: Final = 0.05


def find_outage(look: Look) -> str | None:
    """The sentence for an operator while a dependency of both arms is away; None otherwise.

    In each arm at least three answers of the last user window, and 5% of them, failed with kind
    `dependency`. No statistics: to pause is harmless, and to wait for proof is not.
    """
    outcomes, rollout = look.outcomes, look.rollout
    window_s = rollout.plan.user_window_s
    is_recent = (decided_s(outcomes) >= stage_began_s(rollout)) & (
        outcomes.ended_s > look.now_s - window_s
    )
    failed = outcomes.column(Figure.DEPENDENCY_FAILURE)
    shares = []
    for is_in_arm in (outcomes.is_candidate, ~outcomes.is_candidate):
        of_arm = np.nan_to_num(failed[is_recent & is_in_arm])
        if of_arm.sum() < max(_LEAST_FAILURES, _LEAST_SHARE * len(of_arm)):
            return None
        shares.append(float(of_arm.mean()))
    return (
        f"a dependency fails in both arms ({shares[0]:.0%} of the candidate's answers and"
        f" {shares[1]:.0%} of the other arm's in the last {window_s:g} s). Mend it, then resume"
    )


def explains_fail(guard: Guard, look: Look) -> bool:
    """Whether a broken promise is the dependency's fault in both arms and not the candidate's.

    So when the other arm's dependency failures alone exceed the limit, and the candidate's other
    fallbacks are not shown to.
    """
    if guard.figure not in _BLAMED or guard.reference is not Reference.ABSOLUTE:
        return False
    others = mean_of_users(look.values(look.observations.control, Figure.DEPENDENCY_FAILURE))
    if not len(others) or others.mean() <= guard.limit:
        return False
    if guard.figure is Figure.DEPENDENCY_FAILURE:
        return True
    candidate = look.observations.candidate
    own = mean_of_users(look.values(candidate, Figure.SAMPLER_FAILURE))
    return mean_bounds(own, error_rate(guard, look)).lower <= guard.limit
