"""`wfs`: wavelet segments with quotas and marginal relevance (WFS-SB, CVPR 2026, arXiv 2603.00512).

Cuts the video where its relevance changes most on a coarse scale, shares the budget out over the
segments by importance, and chooses inside each one by relevance minus redundancy. Written from the
formulas, not from the code, which has no licence; `upstream_rows` reproduces its output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from samplers.contract import (
    FloatArray,
    FrameScorer,
    IndexArray,
    NotedSelection,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.logdet import MOST_COMPARED_ROWS, MOST_PICKS, MOST_PRODUCTS
from samplers.maxvol import maxvol_rows
from samplers.options import check_ranges
from samplers.selection import (
    RealArray,
    apportion,
    finalise,
    is_degenerate,
    min_max_scaled,
    num_wanted,
    top_rows,
    uniform_rows,
    usable_scores,
)
from samplers.shot import importances, softmax
from samplers.wavelet import boundary_rows

FEWEST_ROWS_OF_A_WAVELET = 64
"""Below, the coarsest detail is as fine as single frames, and every frame would be a boundary."""
FRAMES_OF_DECAY = 10.0
"""Without embeddings, redundancy falls to 1/e over this many candidates."""

SimilarityRow: TypeAlias = Callable[[int], RealArray]
"""Row `j` of a similarity matrix, `[N]`."""


@dataclass(frozen=True, slots=True)
class SegmentRule:
    """How the budget is shared out over segments, and relevance weighed against redundancy."""

    mmr_lambda: float = 0.5
    strictness: float = 1.2
    temperature: float = 1.0


def mmr_rows(
    relevance: RealArray, similarity_row: SimilarityRow, count: int, mmr_lambda: float
) -> list[int]:
    """Rows in the order of choice by maximal marginal relevance, the most relevant one first.

    Each next one maximises `mmr_lambda * (2 r - 1) - (1 - mmr_lambda) * s`, where `s` is its
    similarity to the nearest row chosen so far. `relevance` is `[N]` in 0..1, `count` at least 1;
    similarities that are not finite count as 1. Ties go to the lower row. O(N) a choice.
    """
    wish = mmr_lambda * (2 * relevance - 1)
    nearest = np.full(len(relevance), -np.inf)
    is_chosen = np.zeros(len(relevance), dtype=np.bool_)
    picks = [int(np.argmax(relevance))]
    while len(picks) < min(count, len(relevance)):
        is_chosen[picks[-1]] = True
        with np.errstate(invalid="ignore", over="ignore"):
            similarities = similarity_row(picks[-1])
        nearest = np.maximum(nearest, np.where(np.isfinite(similarities), similarities, 1.0))
        gains = wish - (1 - mmr_lambda) * nearest
        picks.append(int(np.argmax(np.where(is_chosen, -np.inf, gains))))
    return picks


def segment_quotas(
    scores: RealArray, starts: IndexArray, count: int, rule: SegmentRule, caps: IndexArray
) -> IndexArray:
    """int64 frames for every segment, at most `count` in all, by softmax of importance.

    Of more than three segments, those much less important than the mean get none. `caps` is int64,
    the most that each segment can take. `scores` is `[T]`, finite and not constant.
    """
    importance = importances(scores, starts)
    is_kept = np.ones(len(starts), dtype=np.bool_)
    if len(starts) > 3:
        least = max(0.05, float(importance.mean() - rule.strictness * importance.std()))
        is_kept = importance >= least
    shares = np.where(is_kept, softmax(importance, rule.temperature), 0.0)
    return apportion(shares, count, np.where(is_kept, caps, 0))


def upstream_rows(
    scores: RealArray,
    embeddings: RealArray | None,
    budget: int,
    rule: SegmentRule | None = None,
) -> list[int]:
    """Rows as the authors' program returns them: ascending, exactly `min(budget, T)`.

    `scores` is `[T]`, `embeddings` `[T, D]` with unit rows, or None: redundancy then falls with
    the distance in rows. What the segments cannot take goes to the best scores.
    """
    num_rows, rule = len(scores), rule or SegmentRule()
    if num_rows <= budget:
        return list(range(num_rows))
    # The authors' order of equal scores: the later row first.
    best_first = np.argsort(scores, kind="stable")[::-1].tolist()
    relevance = np.zeros(num_rows) if is_degenerate(scores) else min_max_scaled(scores)
    starts = boundary_rows(relevance)
    if len(starts) == 0:
        spread = uniform_rows(num_rows, budget // 2, "endpoints").tolist()
        picks = {*spread, *best_first[: budget - budget // 2]}
    else:
        starts = np.concatenate([[0], starts])
        quotas = segment_quotas(relevance, starts, budget, rule, np.full(len(starts), budget))
        picks = set(_segment_rows(relevance, embeddings, starts, quotas, rule))
    rest = [row for row in best_first if row not in picks]
    return sorted([*picks, *rest[: budget - len(picks)]])


def safe_rows(
    scores: RealArray, embeddings: RealArray | None, count: int, rule: SegmentRule
) -> tuple[list[int], int]:
    """The rows of the published rule, mended for short videos and full segments; and the segments.

    Below 64 rows, or without a boundary, the whole video is one segment; what a segment cannot take
    goes to the others. Fewer than `count` rows where only unimportant segments are left. `scores`
    is `[T]`, finite and not constant, with T > count >= 1.
    """
    num_rows, relevance = len(scores), min_max_scaled(scores)
    starts = np.zeros(1, dtype=np.int64)
    if num_rows >= FEWEST_ROWS_OF_A_WAVELET:
        starts = np.concatenate([starts, boundary_rows(relevance)])
    lengths = np.diff(np.append(starts, num_rows))
    quotas = segment_quotas(relevance, starts, count, rule, lengths)
    return _segment_rows(relevance, embeddings, starts, quotas, rule), len(starts)


def _segment_rows(
    relevance: TimeArray,
    embeddings: RealArray | None,
    starts: IndexArray,
    quotas: IndexArray,
    rule: SegmentRule,
) -> list[int]:
    """Rows of every segment by maximal marginal relevance, of which only the best are compared."""
    width = 1 if embeddings is None else embeddings.shape[1]
    total = max(int(quotas.sum()), 1)
    rows: list[int] = []
    for (start, end), quota in zip(
        pairwise([*starts.tolist(), len(relevance)]), quotas.tolist(), strict=True
    ):
        if quota:
            most = MOST_PRODUCTS // (total * width)
            if len(relevance) > MOST_COMPARED_ROWS:
                most = min(most, MOST_COMPARED_ROWS * quota // total)
            compared = start + top_rows(relevance[start:end], max(most, 2 * quota))
            similarity_row = _similarity_row(embeddings, compared)
            picks = mmr_rows(relevance[compared], similarity_row, quota, rule.mmr_lambda)
            rows += compared[picks].tolist()
    return rows


def _similarity_row(embeddings: RealArray | None, rows: IndexArray) -> SimilarityRow:
    """Similarities among ascending `rows`: cosines, or without embeddings nearness in rows."""
    if embeddings is None:
        return lambda row: np.exp(-np.abs(rows - rows[row]) / FRAMES_OF_DECAY)
    is_stretch = len(rows) == rows[-1] - rows[0] + 1
    # A slice copies nothing, and nearly every segment is one.
    compared = embeddings[rows[0] : rows[-1] + 1] if is_stretch else embeddings[rows]
    return lambda row: compared @ compared[row]


@dataclass(frozen=True, slots=True)
class WfsSampler:
    """Segments cut where relevance changes, each with its quota of relevant, unlike frames."""

    id: ClassVar[str] = "wfs"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How frames are shared out over segments and chosen inside one."""

        redundancy: Literal["embeddings", "time"] = field(
            default="embeddings",
            metadata={
                "doc": "what makes two frames of a segment redundant: that they look alike, or "
                "that they are few candidates apart (needs scores only)"
            },
        )
        mmr_lambda: float = field(
            default=0.5,
            metadata={"doc": "relevance against redundancy, 0 to 1; 1: relevance alone"},
        )
        strictness: float = field(
            default=1.2,
            metadata={
                "doc": "of more than three segments, one gets no frame when its importance lies "
                "this many standard deviations below the mean, 0 to 100"
            },
        )
        temperature: float = field(
            default=1.0,
            metadata={
                "doc": "of the softmax that turns importance into shares, 0.01 to 100; low: nearly "
                "all frames to the most important segment"
            },
        )
        compat: Literal["safe", "upstream"] = field(
            default="safe",
            metadata={
                "doc": "safe: the rule mended for short videos; upstream: the published program's "
                "rows"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(
                self,
                mmr_lambda=(0.0, 1.0),
                strictness=(0.0, 100.0),
                temperature=(0.01, 100.0),
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
        """Exactly `min(budget, C)` frame indices; see `select_with_note`."""
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """As `select`; the note says how many segments there were.

        Without a query or usable scores: the rows of `maxvol`, or of `uniform` where embeddings are
        not to be read. Raises `FeaturesMissingError`.
        """
        del scenes
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return NotedSelection(finalise([], video, budget))
        scores = usable_scores(video, self.encoder, query)
        embeddings = self._embeddings(video)
        if scores is None:
            return self._without_scores(video, budget, embeddings)
        options = self.options
        rule = SegmentRule(options.mmr_lambda, options.strictness, options.temperature)
        count = min(wanted, MOST_PICKS)
        if options.compat == "upstream":
            rows = upstream_rows(scores, embeddings, count, rule)
            return NotedSelection(finalise(rows, video, budget, scores))
        rows, num_segments = safe_rows(scores, embeddings, count, rule)
        note = f"{num_segments} segments"
        return NotedSelection(finalise(rows, video, budget, scores), note)

    def _embeddings(self, video: VideoHandle) -> FloatArray | None:
        if self.options.redundancy == "time":
            return None
        return video.image_embeddings(self.encoder)

    def _without_scores(
        self, video: VideoHandle, budget: int, embeddings: FloatArray | None
    ) -> NotedSelection:
        wanted = num_wanted(video, budget)
        if embeddings is None:
            rows = uniform_rows(len(video.candidates), wanted)
            return NotedSelection(finalise(rows, video, budget), "no usable scores: uniform")
        rows = maxvol_rows(embeddings, wanted)
        return NotedSelection(finalise(rows, video, budget), "no usable scores: maxvol")
