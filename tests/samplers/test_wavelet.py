from __future__ import annotations

import numpy as np
import pytest
import pywt
from scipy.signal import find_peaks

from samplers.contract import TimeArray
from samplers.wavelet import DB4_HIGH_PASS, DB4_LOW_PASS, boundary_rows, coarsest_detail

LENGTHS = [*range(1, 130), 255, 256, 257, 1000, 3601]


def reference_detail(signal: TimeArray) -> TimeArray:
    num_levels = min(max(len(signal).bit_length() - 4, 1), pywt.dwt_max_level(len(signal), 8))
    if num_levels == 0:
        return np.zeros(len(signal))
    bands = pywt.wavedec(signal, "db4", level=num_levels)
    kept = [band if index == 1 else np.zeros_like(band) for index, band in enumerate(bands)]
    detail: TimeArray = pywt.waverec(kept, "db4")[: len(signal)]
    return detail


def test_the_filters_are_those_of_the_wavelet() -> None:
    wavelet = pywt.Wavelet("db4")
    np.testing.assert_allclose(DB4_LOW_PASS, wavelet.dec_lo, rtol=1e-12)
    np.testing.assert_allclose(DB4_HIGH_PASS, wavelet.dec_hi, rtol=1e-12)


@pytest.mark.parametrize("num_rows", LENGTHS)
def test_the_coarsest_detail_equals_that_of_pywavelets(num_rows: int) -> None:
    signal = np.random.default_rng(num_rows).random(num_rows)
    np.testing.assert_allclose(coarsest_detail(signal), reference_detail(signal), atol=1e-12)


@pytest.mark.parametrize("num_rows", LENGTHS)
def test_boundaries_equal_the_peaks_that_scipy_finds(num_rows: int) -> None:
    signal = np.random.default_rng(num_rows).random(num_rows)
    change = np.abs(reference_detail(signal))
    peaks, _ = find_peaks(
        change,
        height=change.mean() + 0.5 * change.std(),
        prominence=0.05 * (change.max() - change.min()),
        distance=max(5, int(0.02 * num_rows)),
    )
    assert boundary_rows(signal).tolist() == peaks.tolist()


def test_relevance_that_does_not_change_has_no_boundary() -> None:
    assert boundary_rows(np.full(500, 0.3)).tolist() == []
