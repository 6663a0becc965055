"""How two selections of one video differ, and what each is worth. Pure; nothing is C x C.

Times are float64 seconds, ascending, of the chosen frames; indices are frame indices; embeddings
are float32 `[N, D]` rows of norm 1 of the chosen frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samplers.contract import FloatArray, IndexArray, Scene, TimeArray


def overlap_exact(first: Sequence[int], second: Sequence[int]) -> float:
    """`|A ∩ B| / min(|A|, |B|)`, 0..1: 1 where the smaller set lies within the other.

    Symmetric. Both must hold a frame, each at most once.
    """
    return len(set(first) & set(second)) / min(len(first), len(second))


def overlap_within(first_s: TimeArray, second_s: TimeArray, tolerance_s: float) -> float:
    """The most pairs of frames at most `tolerance_s` apart, no frame in two, / min(|A|, |B|); 0..1.

    Symmetric, never below `overlap_exact`. Matching the earliest that fit is the best there is:
    whoever lets a fitting pair go finds nothing earlier for either. O(|A| + |B|).
    """
    times_a, times_b = first_s.tolist(), second_s.tolist()
    a = b = num_pairs = 0
    while a < len(times_a) and b < len(times_b):
        gap_s = times_a[a] - times_b[b]
        is_pair = abs(gap_s) <= tolerance_s
        num_pairs += is_pair
        a += is_pair or gap_s < 0
        b += is_pair or gap_s > 0
    return num_pairs / min(len(times_a), len(times_b))


def temporal_distance_s(first_s: TimeArray, second_s: TimeArray) -> float:
    """1-Wasserstein distance, `∫ |F_A(t) - F_B(t)| dt` of the two sets' distribution functions.

    For sets of one size that is the mean of `|a_k - b_k|` with both in order of time. Seconds, 0
    for equal sets up to the span of both; symmetric. O(n log n).
    """
    edges_s = np.sort(np.concatenate([first_s, second_s]))
    shares_a = np.searchsorted(first_s, edges_s[:-1], side="right") / len(first_s)
    shares_b = np.searchsorted(second_s, edges_s[:-1], side="right") / len(second_s)
    return float(np.abs(shares_a - shares_b) @ np.diff(edges_s))


def relevance(embeddings: FloatArray, query_vector: FloatArray) -> float:
    """`mean_i <x_i, q>`: the mean cosine of the frames with the question, -1..1.

    What the encoder finds alike, which is not what answers the question.
    """
    return _cosine(
        float(embeddings.mean(axis=0, dtype=np.float64) @ query_vector.astype(np.float64))
    )


def redundancy(embeddings: FloatArray) -> float | None:
    """The mean cosine of all pairs, `(|Σ x_i|² - Σ |x_i|²) / (N (N - 1))`, -1..1; O(N D).

    None for fewer than two frames.
    """
    num_frames = len(embeddings)
    if num_frames < 2:
        return None
    wide = embeddings.astype(np.float64)
    total = wide.sum(axis=0)
    own = np.einsum("nd,nd->", wide, wide)
    return _cosine(float(total @ total - own) / (num_frames * (num_frames - 1)))


def scene_coverage(
    indices: Sequence[int], scenes: Sequence[Scene], candidates: IndexArray, budget: int
) -> float | None:
    """Shots with a chosen frame / shots that so many frames can reach, 0..1.

    The latter are the shots that hold a candidate, at most `budget`. None without shots.
    """
    if not scenes:
        return None
    starts = np.array([scene.start_frame for scene in scenes], dtype=np.int64)
    num_reachable = min(budget, len(_scenes_of(candidates, starts)))
    chosen = _scenes_of(np.asarray(indices, dtype=np.int64), starts)
    return len(chosen) / num_reachable if num_reachable else None


def answer_cosine(first: FloatArray, second: FloatArray) -> float:
    """`max(0, <a, b>)` of two answers' unit vectors, 0..1; symmetric, 1 for equal answers."""
    return max(0.0, _cosine(float(first.astype(np.float64) @ second.astype(np.float64))))


def _scenes_of(frames: IndexArray, starts: IndexArray) -> IndexArray:
    """The positions of the scenes that hold any of these frames, each once."""
    return np.unique(np.searchsorted(starts, frames, side="right") - 1)


def _cosine(value: float) -> float:
    """Rounding must not leave the range."""
    return min(1.0, max(-1.0, value))
