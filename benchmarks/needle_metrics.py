"""What the needle benchmark measures, and how sure it is of it.

Of one selection, with the moments of evidence known:

- `moments`: share of the moments that hold at least one pick;
- `complete`: 1 when every moment does, else 0;
- `precision`: share of the picks that lie in a moment;
- `frames`: share of the moments' candidates that are picked.

Intervals are 95 % percentile bootstraps that draw needles, then seeds within each needle: a needle
that the encoder sees well helps all its videos, so single videos are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.needle_videos import ENCODER, NeedleVideo, Scenario
from samplers.contract import TimeArray

METRICS = ("moments", "complete", "precision", "frames")
NUM_DRAWS = 1000
BOOTSTRAP_SEED = 20260101

Values: TypeAlias = npt.NDArray[np.float64]


def measured(indices: Sequence[int], video: NeedleVideo) -> tuple[float, ...]:
    """The four metrics of one selection, in the order of `METRICS`."""
    rows = np.searchsorted(video.candidates, indices)
    hits = [int(np.isin(moment, rows).sum()) for moment in video.moments]
    found = sum(hit > 0 for hit in hits)
    return (
        found / len(hits),
        float(found == len(hits)),
        sum(hits) / len(rows),
        sum(hits) / sum(len(moment) for moment in video.moments),
    )


def visibility(video: NeedleVideo, question: str) -> float:
    """How well the scores tell evidence from the rest: area under the ROC curve, 0.5 is chance."""
    scores = video.scores(ENCODER, question)
    is_evidence = np.isin(np.arange(len(scores)), np.concatenate(video.moments))
    others = np.sort(scores[~is_evidence])
    below = np.searchsorted(others, scores[is_evidence], side="left")
    up_to = np.searchsorted(others, scores[is_evidence], side="right")
    return float((below + up_to).mean() / (2 * len(others)))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Outcomes:
    """All that was measured."""

    labels: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    budgets: tuple[int, ...]
    values: Values
    """`[labels, scenarios, budgets, METRICS]`."""
    visibility: Values
    """`[scenarios]`."""

    def means(
        self,
        metric: str,
        budgets: Sequence[int],
        keep: Callable[[Scenario], bool] = lambda _: True,
    ) -> dict[str, float]:
        """The means of `estimates`, without their intervals, which take time."""
        means = self._cube(metric, budgets, keep).mean(axis=(1, 2)).tolist()
        return dict(zip(self.labels, means, strict=True))

    def estimates(
        self,
        metric: str,
        budgets: Sequence[int],
        keep: Callable[[Scenario], bool] = lambda _: True,
    ) -> dict[str, Estimate]:
        """Label -> mean over the scenarios that `keep` keeps, and over these budgets."""
        cube = self._cube(metric, budgets, keep)
        return _estimates(self.labels, cube.mean(axis=(1, 2)), _resampled(cube))

    def gains(
        self,
        metric: str,
        budgets: Sequence[int],
        baseline: str,
        keep: Callable[[Scenario], bool] = lambda _: True,
    ) -> dict[str, Estimate]:
        """Label -> how much more than `baseline`, in the same videos."""
        cube = self._cube(metric, budgets, keep)
        cube = cube - cube[self.labels.index(baseline)]
        return _estimates(self.labels, cube.mean(axis=(1, 2)), _resampled(cube))

    def needle_visibility(self) -> dict[str, float]:
        """Needle -> mean over the videos that ask for it alone, best first."""
        by_needle: dict[str, list[float]] = {}
        for scenario, value in zip(self.scenarios, self.visibility.tolist(), strict=True):
            if scenario.num_things == 1:
                by_needle.setdefault(scenario.needle_id, []).append(value)
        means = {needle_id: float(np.mean(values)) for needle_id, values in by_needle.items()}
        return dict(sorted(means.items(), key=lambda item: -item[1]))

    def _cube(
        self, metric: str, budgets: Sequence[int], keep: Callable[[Scenario], bool]
    ) -> TimeArray:
        """float64 `[labels, needles, seeds]`: means over what else the kept scenarios differ in."""
        of_budgets = [self.budgets.index(budget) for budget in budgets]
        values = self.values[:, :, of_budgets, METRICS.index(metric)].mean(axis=2)
        cells: dict[str, dict[int, list[int]]] = {}
        for index, scenario in enumerate(self.scenarios):
            if keep(scenario):
                cells.setdefault(scenario.needle_id, {}).setdefault(scenario.seed, []).append(index)
        return np.stack(
            [
                np.stack([values[:, indices].mean(axis=1) for indices in by_seed.values()], axis=1)
                for by_seed in cells.values()
            ],
            axis=1,
        )


def _resampled(cube: TimeArray) -> TimeArray:
    """float64 `[labels, draws]`, the same draws for every label."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    _, num_needles, num_seeds = cube.shape
    needles = rng.integers(num_needles, size=(NUM_DRAWS, num_needles))
    seeds = rng.integers(num_seeds, size=(NUM_DRAWS, num_needles, num_seeds))
    drawn: TimeArray = cube[:, needles[:, :, None], seeds].mean(axis=(2, 3))
    return drawn


def _estimates(
    labels: Sequence[str], means: TimeArray, resampled: TimeArray
) -> dict[str, Estimate]:
    low, high = np.percentile(resampled, [2.5, 97.5], axis=1)
    return {
        label: Estimate(float(mean), float(least), float(most))
        for label, mean, least, most in zip(labels, means, low, high, strict=True)
    }
