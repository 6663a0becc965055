"""Where a signal changes on a coarse scale: the wavelet part of `wfs`, a helper, not a sampler."""

from __future__ import annotations

import numpy as np

from samplers.contract import IndexArray
from samplers.selection import RealArray

DB4_LOW_PASS = np.array(
    [
        -0.010597401785069032,
        0.0328830116668852,
        0.030841381835560764,
        -0.18703481171909309,
        -0.027983769416859854,
        0.6308807679298589,
        0.7148465705529157,
        0.2303778133088965,
    ]
)
"""Daubechies' wavelet with four vanishing moments: the low-pass filter of the analysis."""
DB4_HIGH_PASS = DB4_LOW_PASS[::-1] * np.array([-1.0, 1.0] * 4)
NUM_TAPS = len(DB4_LOW_PASS)

SMALLEST_CHANGE = 1e-9
"""Detail below this, of relevance in 0..1, is rounding."""


def coarsest_detail(signal: RealArray) -> RealArray:
    """float64 `[T]`: what the coarsest detail band of a db4 wavelet transform says of `signal`.

    `floor(log2 T) - 3` levels, at least 1, no more than db4 allows; symmetric extension. Zero below
    14 samples, where db4 allows none. Equal to PyWavelets' `wavedec` and `waverec` (mode
    `symmetric`) with all other bands zero. O(T).
    """
    num_levels = min(
        max(len(signal).bit_length() - 4, 1),
        max((len(signal) // (NUM_TAPS - 1)).bit_length() - 1, 0),
    )
    if num_levels == 0:
        return np.zeros(len(signal))
    lengths = [len(signal)]
    approximation: RealArray = signal.astype(np.float64)
    for _ in range(num_levels - 1):
        approximation = _analysed(approximation, DB4_LOW_PASS)
        lengths.append(len(approximation))
    band = _analysed(approximation, DB4_HIGH_PASS)
    band = _synthesised(band, DB4_HIGH_PASS)[: lengths.pop()]
    while lengths:
        band = _synthesised(band, DB4_LOW_PASS)[: lengths.pop()]
    return band


def _analysed(signal: RealArray, taps: RealArray) -> RealArray:
    extended = np.pad(signal, NUM_TAPS - 1, mode="symmetric")
    return np.convolve(extended, taps, mode="valid")[1::2]


def _synthesised(band: RealArray, taps: RealArray) -> RealArray:
    spread = np.zeros(2 * len(band) - 1)
    spread[::2] = band
    # An orthogonal wavelet's synthesis filter is its analysis filter backwards.
    return np.convolve(spread, taps[::-1])[NUM_TAPS - 2 : 2 - NUM_TAPS]


def boundary_rows(relevance: RealArray) -> IndexArray:
    """int64, ascending, within 1..T-2: rows at which a new segment begins; empty without a change.

    Peaks of the absolute coarsest detail that exceed its mean by half a standard deviation, lie
    max(5, T / 50) rows apart and rise 5 % of its range above their surroundings. T >= 1.
    """
    change = np.abs(coarsest_detail(relevance))
    if change.max() < SMALLEST_CHANGE:
        return np.empty(0, dtype=np.int64)
    peaks = _local_maxima(change)
    peaks = peaks[change[peaks] >= change.mean() + 0.5 * change.std()]
    peaks = _spaced(peaks, change[peaks], max(5, int(0.02 * len(change))))
    least_prominence = 0.05 * float(change.max() - change.min())
    rises = [_prominence(change, int(peak)) for peak in peaks]
    return peaks[np.array(rises, dtype=np.float64) >= least_prominence]


def _local_maxima(heights: RealArray) -> IndexArray:
    """Middles of the flat tops that are higher than both neighbours."""
    starts = np.flatnonzero(np.diff(heights, prepend=np.nan) != 0)
    ends = np.append(starts[1:], len(heights)) - 1
    levels = heights[starts]
    inner = np.flatnonzero((levels[1:-1] > levels[:-2]) & (levels[1:-1] > levels[2:])) + 1
    middles: IndexArray = (starts[inner] + ends[inner]) // 2
    return middles


def _spaced(peaks: IndexArray, heights: RealArray, distance: int) -> IndexArray:
    """The highest peaks that lie at least `distance` apart; of equal ones the later."""
    is_kept = np.ones(len(peaks), dtype=np.bool_)
    for index in np.argsort(heights, kind="stable")[::-1].tolist():
        if is_kept[index]:
            is_near = np.abs(peaks - peaks[index]) < distance
            is_near[index] = False
            is_kept[is_near] = False
    return peaks[is_kept]


def _prominence(heights: RealArray, peak: int) -> float:
    """How far `peak` rises above the lowest points on the ways to a higher one or the end."""
    higher = np.flatnonzero(heights > heights[peak])
    position = int(np.searchsorted(higher, peak))
    left = int(higher[position - 1]) + 1 if position else 0
    right = int(higher[position]) if position < len(higher) else len(heights)
    reached = max(heights[left : peak + 1].min(), heights[peak:right].min())
    return float(heights[peak] - reached)
