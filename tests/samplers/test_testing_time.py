"""The kit tells of a sampler that would overrun the usual deadline, and decides nothing by it."""

from __future__ import annotations

import time

import pytest

from app.settings import Settings
from samplers.testing import USUAL_DEADLINE_S, SlowSamplerWarning, check_sampler
from tests.samplers.test_testing import Mutant


def tell(monkeypatch: pytest.MonkeyPatch, *readings_s: float) -> None:
    """The processor's clock shows these, one after the other."""
    left = iter(readings_s)
    monkeypatch.setattr(time, "thread_time", lambda: next(left))


def test_a_selection_beyond_the_usual_deadline_is_told_and_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tell(monkeypatch, 0.0, 1.7, 2.0, 3.25)
    with pytest.warns(SlowSamplerWarning, match=r"1\.2 s of processor time.*C=3600") as told:
        check_sampler(Mutant)
    assert told[0].filename == __file__, "the author's own line"


def test_what_is_slow_only_once_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    tell(monkeypatch, 0.0, 1.7, 2.0, 2.5)
    check_sampler(Mutant)


def test_what_is_within_the_deadline_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tell(monkeypatch, 0.0, 1.0)
    check_sampler(Mutant)


def test_the_usual_deadline_is_the_service_s() -> None:
    assert Settings.model_fields["selection_deadline_s"].default == USUAL_DEADLINE_S
