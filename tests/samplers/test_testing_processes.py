"""What only other processes can show."""

from __future__ import annotations

import numpy as np
import pytest

from samplers.contract import ContractViolationError, Scene, VideoHandle
from samplers.selection import finalise
from samplers.testing import check_processes
from samplers.uniform import UniformSampler
from tests.samplers.test_testing import Mutant


class SeedsWithHash(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        rng = np.random.default_rng(abs(hash(query or "")))
        return finalise(rng.permutation(len(video.candidates))[:budget], video, budget)


class FollowsASet(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        names = list({f"row {row}" for row in range(len(video.candidates))})
        return finalise([int(name[4:]) for name in names[:budget]], video, budget)


class RaisesElsewhere(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        raise ZeroDivisionError("stride")


@pytest.mark.parametrize("sampler_class", [SeedsWithHash, FollowsASet])
def test_what_differs_between_processes_is_refused(sampler_class: type[Mutant]) -> None:
    with pytest.raises(ContractViolationError, match="in another process"):
        check_processes(sampler_class)


def test_what_is_the_same_in_every_process_passes_with_its_options() -> None:
    check_processes(UniformSampler, UniformSampler.Options(mode="endpoints"), encoder="any")


def test_a_sampler_that_fails_there_is_refused_with_the_reason() -> None:
    with pytest.raises(ContractViolationError, match="ZeroDivisionError: stride"):
        check_processes(RaisesElsewhere)


def test_a_class_that_no_process_could_import_is_refused() -> None:
    class Local(Mutant):
        """Of this function alone."""

    with pytest.raises(ContractViolationError, match="imported from a module"):
        check_processes(Local)
