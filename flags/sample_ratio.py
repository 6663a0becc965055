"""Checks that users were dealt as the flag says; where not, no comparison of the arms can be
trusted."""

from __future__ import annotations

from typing import Final

import numpy as np
from ville import BernoulliTest

from flags.guard_report import SampleRatio
from flags.observations import Observations
from flags.rollout_plan import Rollout

MISMATCH_P_VALUE: Final = 0.001
"""Holds at all looks at one stage, like the p-value itself."""
_LEAST_SWITCHED_USERS: Final = 5
_SWITCHED_SHARE: Final = 0.01


def check_sample_ratio(rollout: Rollout, observations: Observations, now_s: float) -> SampleRatio:
    """The share of the candidate among the users who came to the running stage, beside its weight.

    Counts users whose first answer began a user window ago, so that slow answers of one arm are
    not missed. A beta-binomial e-process (Howard et al. 2021) in the order of coming.
    """
    is_due = observations.first_started_s <= now_s - rollout.plan.user_window_s
    arms = observations.is_candidate[is_due].astype(np.float64)
    share = rollout.weight / 100.0
    p_value = 1.0
    if len(arms) and share < 1.0:
        p_value = float(BernoulliTest(share, alpha=MISMATCH_P_VALUE).fit(arms).p_values_[-1])
    observed = float(arms.mean()) if len(arms) else None
    switched = observations.users_in_both_arms
    is_redealt = switched >= max(
        _LEAST_SWITCHED_USERS, _SWITCHED_SHARE * len(observations.is_candidate)
    )
    return SampleRatio(
        expected_share=share,
        observed_share=observed,
        users=len(arms),
        users_in_both_arms=switched,
        p_value=p_value,
        is_mismatch=is_redealt or p_value < MISMATCH_P_VALUE,
        reason=_reason(is_redealt, switched, p_value, share, observed),
    )


def _reason(
    is_redealt: bool, switched: int, p_value: float, share: float, observed: float | None
) -> str:
    if is_redealt:
        return (
            f"{switched} users were dealt to both arms within this stage. Look for a second flag"
            " file, or an edit of the salt"
        )
    if observed is None:
        return "No user has been here for a user window yet"
    dealt = f"{observed:.2%} of the users are in the candidate arm, {share:.0%} should be"
    if p_value < MISMATCH_P_VALUE:
        return (
            f"{dealt} (p = {p_value:.1g}). Look for exposures that are lost in one arm, or for a"
            " flag file that differs between machines"
        )
    return f"{dealt}, which chance explains"
