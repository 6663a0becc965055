"""`bolt` a second time, as plainly as its published rule can be written: an oracle for other seeds.

Shares no code with `samplers.bolt`. Float64; slow on purpose.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import numpy as np


def naive_bolt(scores: Sequence[float], budget: int, power: float) -> list[int]:
    """The rows that the published function returns, in order and with repeats."""
    lowest, highest = min(scores), max(scores)
    if highest == lowest:
        # 0 / 0: no sum reaches any quantile, which a search among NaN reports as the first row.
        return [0] * budget
    relevance = [(score - lowest) / (highest - lowest) for score in scores]
    if power != -1:
        relevance = [value**power for value in relevance]
    # NumPy's sum, whose rounding decides whether the last sum reaches 1.
    total = float(np.sum(np.array(relevance)))
    reached = list(accumulate(value / total for value in relevance))
    first, last = 1 / budget, 1 - 1 / budget
    step = (last - first) / (budget - 1) if budget > 1 else 0.0
    quantiles = [first + step * index for index in range(budget - 1)]
    quantiles.append(last if budget > 1 else first)
    return [bisect_left(reached, quantile) for quantile in quantiles]
