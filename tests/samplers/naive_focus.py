"""`focus` a second time, as plainly as its published rule can be written, for other seeds.

Shares no code with `samplers.focus_upstream`; both draw the same random numbers in the same order.
One row a second; slow on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

import numpy as np


@dataclass
class NaiveFocus:
    """The published program on `scores` in 0..1, one a second; `rows` returns its selection."""

    scores: Sequence[float]
    rng: np.random.Generator
    min_coarse_segments: int = 8
    coarse_every_s: float = 16.0
    min_zoom_segments: int = 4
    final_min_arms: int = 4
    is_linear: bool = False

    def __post_init__(self) -> None:
        num_rows = len(self.scores)
        wanted = max(self.min_coarse_segments, math.ceil(num_rows / self.coarse_every_s))
        stride = max(1, num_rows // wanted)
        num_arms = max(1, num_rows // stride)
        width = num_rows // num_arms
        self.half_window = max(1, round(max(1, num_rows / wanted / 2)))
        self.arms = [list(range(arm * width, (arm + 1) * width)) for arm in range(num_arms)]
        self.samples: list[list[int]] = []
        self.scored: set[int] = set()

    def rows(self, budget: int) -> list[int]:
        self.sample_all_arms()
        order = sorted(range(len(self.arms)), key=lambda arm: -self.upper_bound(arm))
        quarter = math.ceil(0.25 * len(self.arms))
        for arm in order[: max(self.min_zoom_segments, quarter)]:
            self.look_closer(arm)
        num_top = round(0.2 * min(budget, len(self.scored)))
        picks = sorted(self.scored, key=lambda row: (-self.scores[row], row))[:num_top]
        final = order[: min(max(quarter, self.final_min_arms), 32, len(self.arms))]
        base, rest = divmod(budget - num_top, len(final))
        for place, arm in enumerate(final):
            picks += self.drawn(arm, base + (1 if place < rest else 0), picks)
        return sorted(set(picks))[:budget]

    def middle(self, arm: int) -> int:
        return (self.arms[arm][0] + self.arms[arm][-1]) // 2

    def sample_all_arms(self) -> None:
        for arm, rows in enumerate(self.arms):
            others = [row for row in rows if row != self.middle(arm)]
            self.samples.append([self.middle(arm), *self.chosen(others, min(2, len(others)))])
        self.scored = {row for samples in self.samples for row in samples}
        self.num_coarse = len(self.scored)

    def chosen(self, rows: list[int], count: int) -> list[int]:
        if count <= 0:
            return []
        return [int(row) for row in self.rng.choice(rows, count, replace=False)]

    def upper_bound(self, arm: int) -> float:
        values = [self.scores[row] for row in self.samples[arm]]
        log_total = math.log(self.num_coarse)
        spread = 2 * log_total * max(pvariance(values), 1e-6) / len(values)
        return fmean(values) + math.sqrt(spread) + 3 * log_total / len(values)

    def look_closer(self, arm: int) -> None:
        first = max(0, self.middle(arm) - self.half_window)
        last = min(len(self.scores) - 1, self.middle(arm) + self.half_window)
        window = list(range(first, last + 1))
        num_even = round(0.5 * len(window))
        even = [window[int((i + 0.5) * len(window) / num_even)] for i in range(num_even)]
        rest = [row for row in window if row not in self.scored and row not in even]
        random = self.chosen(rest, min(len(window) - num_even, len(rest)))
        self.scored |= {*even, *random}

    def drawn(self, arm: int, quota: int, picks: list[int]) -> list[int]:
        rows = self.arms[arm]
        guess = self.on_lines if self.is_linear else self.nearest
        guesses = [min(max(guess(arm, row), 0.0), 1.0) for row in rows]
        lowest, highest = min(guesses), max(guesses)
        scaled = [(g - lowest) / (highest - lowest) if highest > lowest else 0.0 for g in guesses]
        weights = {
            row: math.exp((value - max(scaled)) / 0.06)
            for row, value in zip(rows, scaled, strict=True)
            if row not in picks
        }
        free = list(weights)
        if min(quota, len(free)) == 0:
            return []
        shares = np.array([weights[row] for row in free])
        drawn = self.rng.choice(free, min(quota, len(free)), replace=False, p=shares / shares.sum())
        return [int(row) for row in drawn]

    def nearest(self, arm: int, row: int) -> float:
        return self.scores[min(self.samples[arm], key=lambda sample: abs(sample - row))]

    def on_lines(self, arm: int, row: int) -> float:
        samples = self.samples[arm]
        return float(np.interp(row, samples, [self.scores[sample] for sample in samples]))
