"""The published program of `focus`, row for row, with its defects (`compat: upstream`).

Written from the formulas; where they leave a choice open (in which order random numbers are drawn,
which of two equally near samples counts), the golden vectors decided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from samplers.contract import IndexArray, TimeArray
from samplers.score_oracle import Answers
from samplers.selection import top_rows

EXTRA_SAMPLES = 2
ZOOM_RATIO = 0.25
MOST_FINAL_ARMS = 32
TOP_SHARE = 0.2
TEMPERATURE = 0.06
SMALLEST_VARIANCE = 1e-6


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """The program's parameters that its golden cases vary."""

    fps: float = 1.0
    """Rows a second."""
    min_gap_s: float = 0.0
    min_coarse_segments: int = 8
    coarse_every_s: float = 16.0
    min_zoom_segments: int = 4
    final_min_arms: int = 4
    interpolation: Literal["nearest", "linear"] = "nearest"


def driver_min_gap_s(duration_s: float, budget: int) -> float:
    """The least distance of two drawn frames, seconds, as the program's driver sets it."""
    share_s = duration_s / budget
    return 0.0 if share_s <= 0.2 else min(0.25 * share_s, 1.0)


def upstream_rows(
    answers: Answers, budget: int, rng: np.random.Generator, settings: UpstreamSettings
) -> list[int]:
    """Rows as the authors' program returns them: ascending, at times fewer than `budget`.

    `answers` holds C >= 1 rows; a row that its oracle does not answer, or that exceeds its limit,
    counts as 0.
    """
    grid = _Grid.over(len(answers.relevance), settings)
    samples = grid.coarse_samples(rng)
    answers.ask(samples.ravel())
    coarse = np.nan_to_num(answers.relevance)
    order = np.argsort(-_upper_bounds(coarse[samples]), kind="stable")
    num_promising = max(settings.min_zoom_segments, math.ceil(ZOOM_RATIO * grid.num_arms))
    answers.ask(grid.fine_rows(order[:num_promising], answers.is_asked, rng))

    is_picked = np.zeros(grid.num_rows, dtype=np.bool_)
    num_top = round(TOP_SHARE * min(budget, answers.num_asked))
    is_picked[top_rows(answers.relevance, num_top)] = True
    num_final = max(math.ceil(ZOOM_RATIO * grid.num_arms), settings.final_min_arms)
    final = order[: min(num_final, MOST_FINAL_ARMS)]
    base, rest = divmod(budget - num_top, len(final))
    gap = max(1, round(settings.min_gap_s * settings.fps))
    for place, arm in enumerate(final.tolist()):
        probabilities = _probabilities(grid.rows_of(arm), samples[arm], coarse, settings)
        free = np.flatnonzero(~_is_near(is_picked, grid.rows_of(arm), gap))
        quota = min(base + (place < rest), len(free))
        if quota:
            weights = probabilities[free] / probabilities[free].sum()
            is_picked[rng.choice(grid.rows_of(arm)[free], quota, replace=False, p=weights)] = True
    rows: list[int] = np.flatnonzero(is_picked)[:budget].tolist()
    return rows


@dataclass(frozen=True, slots=True)
class _Grid:
    """Arms of `width` rows each; the rows after the last whole arm belong to none."""

    num_rows: int
    num_arms: int
    width: int
    half_window: int
    fine_stride: int

    @classmethod
    def over(cls, num_rows: int, settings: UpstreamSettings) -> _Grid:
        fps = settings.fps
        duration_s = num_rows / fps
        wanted = max(settings.min_coarse_segments, math.ceil(duration_s / settings.coarse_every_s))
        stride = max(1, num_rows // wanted)
        num_arms = max(1, num_rows // stride)
        return cls(
            num_rows=num_rows,
            num_arms=num_arms,
            width=num_rows // num_arms,
            half_window=max(1, round(max(1 / fps, duration_s / wanted / 2) * fps)),
            fine_stride=max(1, min(round(fps), stride)),
        )

    @property
    def middle(self) -> int:
        """Of an arm, from its first row."""
        return (self.width - 1) // 2

    def rows_of(self, arm: int) -> IndexArray:
        return np.arange(arm * self.width, (arm + 1) * self.width)

    def coarse_samples(self, rng: np.random.Generator) -> IndexArray:
        """int64 `[num_arms, 1 to 3]`: of every arm the middle, then others at random."""
        num_others = self.width - 1
        extra = min(EXTRA_SAMPLES, num_others)
        places = np.full((self.num_arms, 1 + extra), self.middle)
        for arm in range(self.num_arms if extra else 0):
            others = rng.choice(num_others, extra, replace=False)
            places[arm, 1:] = others + (others >= self.middle)
        samples: IndexArray = places + self.width * np.arange(self.num_arms)[:, np.newaxis]
        return samples

    def fine_rows(
        self, arms: IndexArray, is_asked: np.typing.NDArray[np.bool_], rng: np.random.Generator
    ) -> IndexArray:
        """int64: new rows around the middles of `arms`: half of them on a grid, half at random."""
        is_taken = is_asked.copy()
        for arm in arms.tolist():
            middle = arm * self.width + self.middle
            low = max(0, middle - self.half_window)
            size = min(self.num_rows - 1, middle + self.half_window) + 1 - low
            needed = max(1, size // self.fine_stride)
            num_even = round(0.5 * needed)
            even = low + (2 * np.arange(num_even) + 1) * size // max(1, 2 * num_even)
            is_taken[even] = True
            rest = low + np.flatnonzero(~is_taken[low : low + size])
            num_random = min(needed - num_even, len(rest))
            if num_random:
                is_taken[rng.choice(rest, num_random, replace=False)] = True
        return np.flatnonzero(is_taken & ~is_asked)


def _upper_bounds(samples: TimeArray) -> TimeArray:
    """float64 `[num_arms]` from the coarse samples `[num_arms, n]` alone, as in the program."""
    per_arm = samples.shape[1]
    log_total = math.log(samples.size)
    variance = np.maximum(samples.var(axis=1), SMALLEST_VARIANCE)
    bounds: TimeArray = (
        samples.mean(axis=1) + np.sqrt(2 * log_total * variance / per_arm) + 3 * log_total / per_arm
    )
    return bounds


def _is_near(
    is_picked: np.typing.NDArray[np.bool_], rows: IndexArray, gap: int
) -> np.typing.NDArray[np.bool_]:
    """Which of the consecutive `rows` lie closer than `gap` rows to a pick."""
    low = max(0, int(rows[0]) - gap + 1)
    picks = low + np.flatnonzero(is_picked[low : int(rows[-1]) + gap])
    distances = np.abs(rows[:, np.newaxis] - picks)
    near: np.typing.NDArray[np.bool_] = (distances < gap).any(axis=1)
    return near


def _probabilities(
    rows: IndexArray, samples: IndexArray, relevance: TimeArray, settings: UpstreamSettings
) -> TimeArray:
    """float64 `[len(rows)]`, sum 1: softmax over an arm of what its coarse samples suggest."""
    values = relevance[samples]
    if settings.interpolation == "linear":
        # The samples are not sorted, which np.interp needs: as in the program.
        guesses = np.interp(rows, samples, values)
    else:
        guesses = values[np.abs(rows[:, np.newaxis] - samples).argmin(axis=1)]
    guesses = guesses.clip(0.0, 1.0) - guesses.clip(0.0, 1.0).min()
    scaled = guesses / guesses.max() if guesses.max() > 0 else guesses
    weights = np.exp((scaled - scaled.max()) / TEMPERATURE)
    probabilities: TimeArray = weights / weights.sum()
    return probabilities
