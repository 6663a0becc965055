from __future__ import annotations

import time
from os import environ
from time import monotonic

import pytest

from samplers.code_scan import forbidden_reads
from samplers.registry import BUILT_IN, load_registry


def seconds_now() -> float:
    return monotonic()


def twice(value: float) -> float:
    return 2 * value


class Direct:
    def select(self) -> float:
        return time.time()


class ThroughAFunction:
    def select(self) -> float:
        return twice(seconds_now())


class InsideAComprehension:
    def select(self) -> list[float]:
        return [row + time.time() for row in range(2)]


class ImportedInside:
    def select(self) -> object:
        import urllib.request  # noqa: PLC0415 - what this test is about

        return urllib.request


class InAProperty:
    @property
    def seed(self) -> str:
        return environ["SEED"]


class Innocent:
    def __init__(self, time: float) -> None:
        self.time = time

    @staticmethod
    def later(time: float) -> float:
        return twice(time)

    def select(self) -> float:
        return self.later(self.time)


@pytest.mark.parametrize(
    ("sampler_class", "found"),
    [
        (Direct, ("the clock (time, in select)",)),
        (ThroughAFunction, ("the clock (time, in seconds_now)",)),
        (InsideAComprehension, ("the clock (time, in select)",)),
        (ImportedInside, ("the network (urllib, in select)",)),
        (InAProperty, ("the environment (environ, in seed)",)),
        (Innocent, ()),
    ],
)
def test_forbidden_reads_are_found_where_they_are(
    sampler_class: type, found: tuple[str, ...]
) -> None:
    assert forbidden_reads(sampler_class) == found


@pytest.mark.parametrize("sampler_id", list(BUILT_IN))
def test_no_built_in_reads_clock_environment_network_or_models(sampler_id: str) -> None:
    sampler = load_registry().build(sampler_id, {}, encoder="default")
    assert forbidden_reads(type(sampler)) == ()
