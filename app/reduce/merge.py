"""Temporal merging: neighbours in time that look alike, at one place of the picture, become one.

Agglomerative clustering restricted to adjacent members of the same position, so that every token
covers an unbroken run of the chosen frames and keeps its time span. Own design; the size-weighted
mean is the merge rule of token merging (ToMe, arXiv 2210.09461), written from the paper.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from app.reduce.contract import InvalidReducerOptionsError, ReducedTokens, ReducerOptions
from samplers.contract import FloatArray


class MergeReducer:
    """Merges the most similar adjacent pair (cosine), again and again, until the count is reached.

    Exactly `max(P, ceil(N x P x keep_ratio))` tokens remain; every position keeps at least one.
    Identical neighbours merge first, so a still picture gives up its tokens before a moving one.
    """

    id: ClassVar[str] = "merge"
    version: ClassVar[str] = "1"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(ReducerOptions):
        keep_ratio: float = field(
            default=0.5, metadata={"doc": "Share of the N x P tokens that is kept, 0 < r <= 1."}
        )

        def __post_init__(self) -> None:
            if not 0 < self.keep_ratio <= 1:
                raise InvalidReducerOptionsError("keep_ratio must lie in (0, 1]")

    def __init__(self, options: MergeReducer.Options) -> None:
        self._options = options

    @property
    def options(self) -> ReducerOptions:
        return self._options

    def num_tokens(self, num_frames: int, tokens_per_picture: int) -> int:
        total = num_frames * tokens_per_picture
        return min(total, max(tokens_per_picture, self._kept(total)))

    def tokens_per_frame(self, tokens_per_picture: int) -> float:
        return float(self._kept(tokens_per_picture))

    def _kept(self, count: int) -> int:
        # 100 x 0.07 is a little more than 7 in binary: what rounding added must not count.
        return math.ceil(count * self._options.keep_ratio - 1e-9)

    def reduce(self, tokens: FloatArray) -> ReducedTokens:
        num_frames, per_frame, _ = tokens.shape
        runs = _Runs(tokens)
        for _ in range(num_frames * per_frame - self.num_tokens(num_frames, per_frame)):
            runs.merge_most_similar()
        return runs.result()


class _Runs:
    """The tokens as doubly linked runs: node `p * N + n` starts as frame n at position p."""

    def __init__(self, tokens: FloatArray) -> None:
        self._num_frames, self._per_frame, dim = tokens.shape
        count = self._num_frames * self._per_frame
        # Sums, not means: the cosine is the same, and merging is one addition.
        self._sums: FloatArray = tokens.transpose(1, 0, 2).reshape(count, dim).copy()
        self._norms = np.linalg.norm(self._sums, axis=1)
        self._last = np.arange(count) % max(self._num_frames, 1)
        self._following = np.arange(1, count + 1)
        self._following[self._num_frames - 1 :: max(self._num_frames, 1)] = -1
        self._preceding = np.arange(-1, count - 1)
        self._preceding[:: max(self._num_frames, 1)] = -1
        self._is_alive = np.ones(count, dtype=np.bool_)
        self._changes = [0] * count
        """How often a node's run grew: an entry of the heap that saw fewer changes is stale."""
        self._heap = self._all_pairs()

    def _all_pairs(self) -> list[tuple[float, int, int, int, int]]:
        left = np.flatnonzero(self._following >= 0)
        dots = np.einsum("md,md->m", self._sums[left], self._sums[self._following[left]])
        similarities = _cosines(dots, self._norms[left], self._norms[self._following[left]])
        heap = [
            (-float(similarity), int(node), int(node) + 1, 0, 0)
            for similarity, node in zip(similarities, left, strict=True)
        ]
        heapq.heapify(heap)
        return heap

    def merge_most_similar(self) -> None:
        """Ties go to the lower position, then to the earlier frame."""
        while True:
            _, left, right, left_changes, right_changes = heapq.heappop(self._heap)
            is_fresh = (self._changes[left], self._changes[right]) == (left_changes, right_changes)
            if is_fresh and self._is_alive[left] and self._is_alive[right]:
                break
        self._absorb(left, right)
        preceding, following = int(self._preceding[left]), int(self._following[left])
        if preceding >= 0:
            self._push(preceding, left)
        if following >= 0:
            self._push(left, following)

    def _absorb(self, left: int, right: int) -> None:
        self._sums[left] += self._sums[right]
        self._norms[left] = np.sqrt(self._sums[left] @ self._sums[left])
        self._last[left] = self._last[right]
        self._is_alive[right] = False
        self._changes[left] += 1
        following = int(self._following[right])
        self._following[left] = following
        if following >= 0:
            self._preceding[following] = left

    def _push(self, left: int, right: int) -> None:
        similarity = _cosine(
            self._sums[left] @ self._sums[right], self._norms[left], self._norms[right]
        )
        changes = (self._changes[left], self._changes[right])
        heapq.heappush(self._heap, (-similarity, left, right, *changes))

    def result(self) -> ReducedTokens:
        alive = np.flatnonzero(self._is_alive)
        first, positions = alive % max(self._num_frames, 1), alive // max(self._num_frames, 1)
        order = np.lexsort((positions, first))
        nodes = alive[order]
        spans: npt.NDArray[np.int64] = np.stack([first[order], self._last[nodes]], axis=1)
        sizes = spans[:, 1] - spans[:, 0] + 1
        return ReducedTokens(
            tokens=self._sums[nodes] / sizes[:, None].astype(np.float32),
            frame_spans=spans,
            positions=positions[order],
            num_tokens_before=len(self._is_alive),
        )


def _cosine(dot: np.float32, left_norm: np.float32, right_norm: np.float32) -> float:
    """`_cosines` of one pair, without the cost of arrays."""
    product = left_norm * right_norm
    quotient = dot / product if product > 0 else np.float32(left_norm == right_norm == 0)
    return float(quotient.round(6)) if np.isfinite(quotient) else -1.0


def _cosines(dots: FloatArray, left_norms: FloatArray, right_norms: FloatArray) -> FloatArray:
    """Cosines; 1 for two zero vectors (they are the same), 0 beside one, -1 where not finite."""
    product = left_norms * right_norms
    both_zero = (left_norms == 0) & (right_norms == 0)
    quotient = np.divide(dots, product, out=np.zeros_like(dots), where=product > 0)
    quotient[both_zero] = 1.0
    finite: FloatArray = np.nan_to_num(quotient, nan=-1.0, posinf=-1.0, neginf=-1.0)
    # What is alike but for the rounding of this CPU is a tie, and ties fall by place.
    return finite.round(6)
