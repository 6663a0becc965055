"""`bolt`: inverse transform sampling (Liu et al., CVPR 2025, arXiv 2503.21483).

Reads the sharpened relevance as a density over time and takes its quantiles: many frames where the
video is relevant, some everywhere else. Written from the formulas; the authors' code is MIT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from samplers.contract import (
    FrameScorer,
    IndexArray,
    InvalidOptionsError,
    SamplerOptions,
    Scene,
    VideoHandle,
)
from samplers.selection import (
    RealArray,
    finalise,
    num_wanted,
    shot_start_rows,
    uniform_rows,
    usable_scores,
)

NO_EXPONENT = -1.0


def upstream_rows(scores: RealArray, budget: int, power: float = 3.0) -> list[int]:
    """Rows as the authors' function returns them: in order, with repeats, maybe C for budget 1.

    `scores` is `[C]`; the arithmetic keeps its precision (the authors feed float32).
    """
    density = _density(scores, power)
    quantiles = np.linspace(1 / budget, 1 - 1 / budget, budget)
    rows: list[int] = np.searchsorted(np.cumsum(density), quantiles, side="left").tolist()
    return rows


def safe_rows(
    scores: RealArray, budget: int, power: float, shot_starts: IndexArray | None = None
) -> IndexArray:
    """int64, ascending, unique rows: `budget` of them where the mass has room.

    `scores` is `[C]`, finite and not constant, with C > budget >= 1. One frame is the best one, two
    are the quartiles (the published quantiles fall together there), more are the published
    quantiles, of which a repeated one moves to a free row between its neighbours: with
    `shot_starts` (int64 rows) first to the best row of another shot there, then to the nearest.
    A repeat without a free row there is left to `finalise`.
    """
    if budget == 1:
        return np.array([np.argmax(scores)], dtype=np.int64)
    density = _density(scores.astype(np.float64), power)
    quantiles = (
        np.array([0.25, 0.75]) if budget == 2 else np.linspace(1 / budget, 1 - 1 / budget, budget)
    )
    rows = np.searchsorted(np.cumsum(density), quantiles, side="left")
    return _Spread(density, np.minimum(rows, len(scores) - 1), shot_starts).rows()


def _density(scores: RealArray, power: float) -> RealArray:
    with np.errstate(all="ignore"):
        relevance = scores - scores.min()
        relevance = relevance / relevance.max()
        if power != NO_EXPONENT:
            relevance = relevance**power
        density: RealArray = relevance / relevance.sum()
    return density


class _Spread:
    """Gives every repeated quantile a row of its own inside the mass (rows of positive density)."""

    def __init__(
        self, density: RealArray, quantile_rows: IndexArray, shot_starts: IndexArray | None
    ) -> None:
        self._density = density
        self._mass = np.flatnonzero(density > 0)
        self._shot_starts = shot_starts
        self._picks, self._counts = np.unique(quantile_rows, return_counts=True)
        self._is_used = np.zeros(len(density), dtype=np.bool_)
        self._is_used[self._picks] = True

    def rows(self) -> IndexArray:
        bounds = [-1, *self._picks.tolist(), len(self._density)]
        for index in np.flatnonzero(self._counts > 1).tolist():
            left, pick, right = bounds[index : index + 3]
            missing = int(self._counts[index]) - 1
            if self._shot_starts is not None:
                missing -= self._spread_over_shots(self._shot_starts, left, right, missing)
            self._spread_nearby(pick, left, right, missing)
        return np.flatnonzero(self._is_used)

    def _spread_over_shots(self, starts: IndexArray, left: int, right: int, missing: int) -> int:
        """Use the best row of up to `missing` shots between two picks that hold none; how many."""
        first = int(np.searchsorted(starts, left + 1, side="right")) - 1
        last = int(np.searchsorted(starts, right))
        edges = np.append(np.maximum(starts[first:last], left + 1), right)
        best = np.maximum.reduceat(self._density[:right], edges[:-1])
        # The picks at both ends count: their shots may reach into the stretch between them.
        low = max(left, 0)
        used = low + np.flatnonzero(self._is_used[low : right + 1])
        holders = np.searchsorted(starts, used, side="right") - 1 - first
        best[holders[(holders >= 0) & (holders < len(best))]] = 0.0
        chosen = [shot for shot in np.argsort(-best, kind="stable")[:missing] if best[shot] > 0]
        for shot in chosen:
            inside = self._density[edges[shot] : edges[shot + 1]]
            self._is_used[edges[shot] + np.argmax(inside)] = True
        return len(chosen)

    def _spread_nearby(self, pick: int, left: int, right: int, missing: int) -> None:
        nearest = self._outwards(pick, left, right)
        for _ in range(missing):
            row = next(nearest, None)
            if row is None:
                return
            self._is_used[row] = True

    def _outwards(self, pick: int, left: int, right: int) -> Iterator[int]:
        """Free rows of the mass between two picks, nearest to `pick` first; then denser."""
        place = int(np.searchsorted(self._mass, pick))
        below, above = place - 1, place + 1
        while True:
            lower = int(self._mass[below]) if below >= 0 else left
            upper = int(self._mass[above]) if above < len(self._mass) else right
            can_go_down, can_go_up = lower > left, upper < right
            if not (can_go_down or can_go_up):
                return
            if can_go_down and (not can_go_up or self._is_nearer(lower, upper, pick)):
                row, below = lower, below - 1
            else:
                row, above = upper, above + 1
            if not self._is_used[row]:
                yield row

    def _is_nearer(self, lower: int, upper: int, pick: int) -> bool:
        if pick - lower != upper - pick:
            return pick - lower < upper - pick
        return bool(self._density[lower] >= self._density[upper])


@dataclass(frozen=True, slots=True)
class BoltSampler:
    """Inverse transform sampling: quantiles of the sharpened relevance over time."""

    id: ClassVar[str] = "bolt"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How sharp the density is, and how faithfully to follow the published program."""

        power: float = field(
            default=3.0,
            metadata={
                "doc": "exponent on the relevance scaled to 0..1; -1 is no exponent; the authors "
                "use 3 (Video-MME, MLVU) and 2.5 (LongVideoBench)"
            },
        )
        scene_hints: bool = field(
            default=True,
            metadata={
                "doc": "a repeated quantile goes to other shots between its neighbours first; safe "
                "mode only, no effect without shots"
            },
        )
        compat: Literal["safe", "upstream"] = field(
            default="safe",
            metadata={
                "doc": "safe: no repeats, sensible at 1 and 2 frames; upstream: the published "
                "function's rows, then repaired to the budget"
            },
        )

        def __post_init__(self) -> None:
            if self.power != NO_EXPONENT and not 0 < self.power <= 100:
                raise InvalidOptionsError(
                    f"option 'power' must be -1 or lie in (0, 100], not {self.power}"
                )

    options: Options
    encoder: str = field(kw_only=True)
    scorer: FrameScorer | None = field(default=None, kw_only=True)

    def select(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> list[int]:
        """Exactly `min(budget, C)` frame indices; `uniform` rows without a query or usable scores.

        Raises `FeaturesMissingError`.
        """
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return finalise([], video, budget)
        scores = usable_scores(video, self.encoder, query)
        if scores is None:
            return finalise(uniform_rows(num_rows, wanted), video, budget)
        if self.options.compat == "upstream":
            return finalise(
                upstream_rows(scores, budget, self.options.power), video, budget, scores
            )
        hinted = self.options.scene_hints and scenes is not None
        starts = shot_start_rows(scenes or [], video.candidates) if hinted else None
        rows = safe_rows(scores, wanted, self.options.power, starts)
        return finalise(rows, video, budget, scores)
