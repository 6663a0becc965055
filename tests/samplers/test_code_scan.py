from __future__ import annotations

import sys
import time
from os import environ
from pathlib import Path
from time import monotonic
from types import ModuleType

import numpy as np
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


class OpensAFile:
    def select(self) -> str:
        with open("weights.txt") as file:  # noqa: PTH123 - what this test is about
            return file.read()


class LoadsWeights:
    def select(self) -> object:
        return np.load("weights.npy"), Path("weights.txt").read_text()


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
        (OpensAFile, ("a file (open, in select)",)),
        (LoadsWeights, ("a file (numpy.load, in select)", "a file (read_text, in select)")),
        (Innocent, ()),
    ],
)
def test_forbidden_reads_are_found_where_they_are(
    sampler_class: type, found: tuple[str, ...]
) -> None:
    assert forbidden_reads(sampler_class) == found


@pytest.mark.parametrize(
    ("code", "root"),
    [
        ("import torch.nn as layers", "torch"),
        ("from transformers.models import AutoModel as Model", "transformers"),
    ],
)
def test_a_model_runtime_that_the_module_imports_is_found(
    monkeypatch: pytest.MonkeyPatch, code: str, root: str
) -> None:
    for name in ("torch", "torch.nn", "transformers", "transformers.models"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    vars(sys.modules["torch"])["nn"] = sys.modules["torch.nn"]
    model = type("AutoModel", (), {"__module__": "transformers.models"})
    vars(sys.modules["transformers.models"])["AutoModel"] = model
    module = ModuleType("framegate_heavy")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(f"{code}\nclass Heavy:\n    pass", vars(module))
    found = forbidden_reads(vars(module)["Heavy"])
    assert found == (f"a model runtime ({root}, imported by framegate_heavy)",)


@pytest.mark.parametrize("sampler_id", list(BUILT_IN))
def test_no_built_in_reads_clock_environment_network_or_models(sampler_id: str) -> None:
    sampler = load_registry().build(sampler_id, {}, encoder="default")
    assert forbidden_reads(type(sampler)) == ()
