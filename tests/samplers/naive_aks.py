"""`aks` a second time, as plainly as its published rule can be written: an oracle for other seeds.

Shares no code with `samplers.aks`. Slow on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pstdev


def naive_aks(
    scores: Sequence[float], budget: int, t1: float, t2: float, all_depth: int
) -> list[int]:
    """The rows that the published program returns for finite scores."""
    if len(scores) < budget:
        return list(range(len(scores)))
    relevance = scaled(scores)

    def best(rows: list[int], count: int) -> list[int]:
        if math.isnan(relevance[0]):
            return rows[:count]
        return sorted(rows, key=lambda row: (-relevance[row], row))[:count]

    def is_peaked(rows: list[int]) -> bool:
        inside = [relevance[row] for row in rows]
        top = [relevance[row] for row in best(rows, budget)]
        return fmean(top) - fmean(inside) > t1 and pstdev(inside) > t2

    def taken(rows: list[int], depth: int) -> list[int]:
        if not rows:
            return []
        if depth == all_depth or is_peaked(rows):
            return best(rows, int(budget / 2**depth))
        half = len(rows) // 2
        return taken(rows[:half], depth + 1) + taken(rows[half:], depth + 1)

    return sorted(taken(list(range(len(scores))), 0))


def scaled(scores: Sequence[float]) -> list[float]:
    lowest, highest = min(scores), max(scores)
    if highest == lowest:
        # 0 / 0: every comparison with NaN is false, so all is halved and nothing is ranked.
        return [math.nan] * len(scores)
    return [(score - lowest) / (highest - lowest) for score in scores]
