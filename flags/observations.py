"""From exposures to what statistics may use: one fixed observation for each user.

Requests of one user are alike, and how many a user makes varies wildly, so the user is the unit. A
user's observation is closed after so many exposures or so much time, and never changes
afterwards: bounds over closed observations hold at every look, bounds over running means of users
who go on asking would not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from flags.figures import FIGURES
from flags.outcomes import BoolColumn, Column, IntColumn, Outcomes
from flags.rollout_plan import Figure, RolloutPlan
from flags.statistics import UserValues

SETTLE_S: Final = 2.0
"""Rows of exposures may be that late in the ledger; younger ones are left for the next look."""


@dataclass(frozen=True, slots=True)
class ArmObservations:
    """The closed users of one arm in the order of closing, and the exposures that count."""

    closed_s: Column
    """[U] ascending."""
    position: IntColumn
    """[E] of exposures in the `Outcomes`, grouped by user."""
    user: IntColumn
    """[E] ascending, 0..U-1: places in the order of closing."""
    open_until_s: Column
    """[O] ascending: when the users that are not closed yet will be, at the latest."""

    @property
    def num_users(self) -> int:
        return len(self.closed_s)

    @property
    def num_answers(self) -> int:
        return len(self.position)


@dataclass(frozen=True, slots=True)
class Span:
    """Exposures decided at `since_s` or later and before `until_s`."""

    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Observations:
    """What one look at a span of the running stage may use."""

    candidate: ArmObservations
    control: ArmObservations
    first_started_s: Column
    """[V] of every user of the span, closed or not, ascending."""
    is_candidate: BoolColumn
    """[V] the arm of that user's first exposure in the span."""
    users_in_both_arms: int


def observe(plan: RolloutPlan, outcomes: Outcomes, span: Span, now_s: float) -> Observations:
    """The observations of `span` that are closed at `now_s`.

    An exposure belongs to the span in which it was decided: answers that were under way while the
    weight was raised were dealt by the old one.
    """
    started_s = decided_s(outcomes)
    in_span = np.flatnonzero((started_s >= span.since_s) & (started_s < span.until_s))
    first = _first_of_each_user(outcomes.user, in_span, started_s)
    arm_of_user = np.zeros(int(outcomes.user.max(initial=-1)) + 1, dtype=np.bool_)
    arm_of_user[outcomes.user[first]] = outcomes.is_candidate[first]
    is_dealt_as_first = outcomes.is_candidate[in_span] == arm_of_user[outcomes.user[in_span]]
    kept = in_span[is_dealt_as_first]
    is_candidate = outcomes.is_candidate[kept]
    return Observations(
        candidate=_observe_arm(plan, outcomes, kept[is_candidate], now_s),
        control=_observe_arm(plan, outcomes, kept[~is_candidate], now_s),
        first_started_s=started_s[first],
        is_candidate=outcomes.is_candidate[first],
        users_in_both_arms=len(np.unique(outcomes.user[in_span[~is_dealt_as_first]])),
    )


def decided_s(outcomes: Outcomes) -> Column:
    """[A] when each exposure's answer began, as far as it is known."""
    total_s = outcomes.column(Figure.TOTAL_S)
    return outcomes.ended_s - np.nan_to_num(total_s)


def exposure_values(
    outcomes: Outcomes, arm: ArmObservations, figure: Figure, window_s: float, now_s: float
) -> UserValues:
    """The values of `figure` for the exposures of `arm` that have one; users are counted anew.

    Of a late figure counts what is known one user window after the user was closed, and no user
    earlier.
    """
    values = outcomes.column(figure)[arm.position]
    is_known = ~np.isnan(values)
    if FIGURES[figure].is_late:
        due_s = arm.closed_s[arm.user] + window_s
        known_s = outcomes.known_s.get(figure, outcomes.ended_s)[arm.position]
        is_known &= (known_s <= due_s) & (due_s <= now_s - SETTLE_S)
    user = arm.user[is_known]
    return UserValues(values[is_known], np.unique(user, return_inverse=True)[1])


def _first_of_each_user(user: IntColumn, positions: IntColumn, started_s: Column) -> IntColumn:
    """Of `positions`, the first started of each user, in the order of starting."""
    ordered = positions[np.argsort(started_s[positions], kind="stable")]
    first = np.unique(user[ordered], return_index=True)[1]
    return ordered[np.sort(first)]


def _observe_arm(
    plan: RolloutPlan, outcomes: Outcomes, positions: IntColumn, now_s: float
) -> ArmObservations:
    order = positions[np.lexsort((outcomes.ended_s[positions], outcomes.user[positions]))]
    user, ended_s = outcomes.user[order], outcomes.ended_s[order]
    is_first = np.diff(user, prepend=-1) != 0
    start = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    window_end_s = ended_s[start] + plan.user_window_s
    rank = np.arange(len(order)) - start[group]
    counts = (rank < plan.user_answers) & (ended_s <= window_end_s[group])
    closed_s = window_end_s.copy()
    is_last = counts & (rank == plan.user_answers - 1)
    closed_s[group[is_last]] = ended_s[is_last]

    is_closed = closed_s <= now_s - SETTLE_S
    closed = np.flatnonzero(is_closed)
    closing_order = closed[np.lexsort((closed, closed_s[closed]))]
    place = np.full(len(start), -1, dtype=np.int64)
    place[closing_order] = np.arange(len(closing_order))
    used = np.flatnonzero(counts & (place[group] >= 0))
    used = used[np.argsort(place[group[used]], kind="stable")]
    # What ends later than this look plays no part in it.
    open_until_s = np.where(closed_s <= now_s, closed_s, window_end_s)
    open_until_s = np.sort(open_until_s[~is_closed & (ended_s[start] <= now_s)]) + SETTLE_S
    return ArmObservations(closed_s[closing_order], order[used], place[group[used]], open_until_s)
