"""What the shadow's process finds out, step by step; here without the process."""

from __future__ import annotations

import pytest

from observability.shadow_names import ShadowSide
from samplers.registry import load_registry
from samplers.testing import make_video
from samplers.uniform import UniformSampler
from shadow.order import ControlSelection, WorkOrder, WorkResult
from shadow.worker import RESULT, Worker
from tests.shadow.made_video import BUDGET, open_made_video, open_nothing, order, served
from tests.shadow.rogues import TARGETS


@pytest.fixture(scope="module")
def worker() -> Worker:
    return Worker(load_registry(TARGETS))


def finished(worker: Worker, one: WorkOrder) -> WorkResult:
    *_, last = worker.carry_out(one)
    assert last.running is None
    return last


def test_both_sides_are_measured_and_compared(worker: Worker) -> None:
    result = finished(worker, order("aks"))
    control, shadow, differences = result.control, result.shadow, result.differences
    assert control is not None
    assert shadow is not None
    assert differences is not None
    assert control.indices == served().indices
    assert len(shadow.indices) == len(shadow.seconds) == BUDGET
    for side in (control, shadow):
        assert side.failure_kind is None
        assert side.latency_s > 0
        assert side.relevance is not None
        assert -1 <= side.relevance <= 1
        assert side.redundancy is not None
        assert side.scene_coverage is not None
        assert 0 < side.scene_coverage <= 1
    assert 0 <= differences.overlap_exact <= differences.overlap_within <= 1
    assert differences.temporal_distance_s > 0


@pytest.mark.parametrize("sampler_id", ["uniform", "fps", "shot", "aks", "bolt"])
def test_a_deterministic_control_beside_itself_is_at_no_distance(
    worker: Worker, sampler_id: str
) -> None:
    first = finished(worker, order(sampler_id, sampler_id)).shadow
    assert first is not None
    selected = ControlSelection(indices=first.indices)
    result = finished(worker, order(sampler_id, sampler_id, selected=selected))
    differences = result.differences
    assert differences is not None
    assert (differences.overlap_exact, differences.overlap_within) == (1.0, 1.0)
    assert differences.temporal_distance_s == 0.0
    assert result.control is not None
    assert result.shadow is not None
    assert result.control.relevance == result.shadow.relevance
    assert result.control.redundancy == result.shadow.redundancy


@pytest.mark.parametrize("is_control_first", [True, False])
def test_each_step_says_who_is_running_in_the_order_that_was_drawn(
    worker: Worker, is_control_first: bool
) -> None:
    steps = [
        step.running for step in worker.carry_out(order("aks", is_control_first=is_control_first))
    ]
    sides = [ShadowSide.CONTROL, ShadowSide.SHADOW]
    assert steps == [*(sides if is_control_first else sides[::-1]), None]


@pytest.mark.parametrize(
    ("sampler_id", "kind"),
    [
        ("raising", "raised"),
        ("unsorted", "contract"),
        ("floats", "contract"),
        ("exiting", "raised"),
        ("odd-error", "raised"),
        ("nobody", "raised"),
        ("unannounced", "contract"),
    ],
)
def test_a_shadow_that_fails_leaves_the_control_measured(
    worker: Worker, sampler_id: str, kind: str
) -> None:
    result = finished(worker, order(sampler_id))
    assert result.shadow is not None
    assert result.shadow.failure_kind == kind
    assert result.shadow.failure_message
    assert result.differences is None
    assert result.control is not None
    assert result.control.relevance is not None


def test_without_features_a_sampler_that_needs_them_lacks_a_dependency(worker: Worker) -> None:
    def opened() -> object:
        return open_made_video(60, has_features=False)

    result = finished(worker, order("aks", open_video=opened))
    assert result.shadow is not None
    assert result.shadow.failure_kind == "dependency"
    assert result.control is not None
    assert (result.control.relevance, result.control.redundancy) == (None, None)
    assert result.control.scene_coverage is not None


def test_a_control_that_failed_is_not_called_again(worker: Worker) -> None:
    selected = ControlSelection(indices=(), failure_kind="deadline", failure_message="slow")
    steps = list(worker.carry_out(order("uniform", "sleeping", selected=selected)))
    assert [step.running for step in steps] == [ShadowSide.SHADOW, None]
    assert steps[-1].control is not None
    assert steps[-1].control.failure_kind == "deadline"
    assert steps[-1].differences is None


def test_a_video_that_is_gone_is_said_to_be(worker: Worker) -> None:
    assert finished(worker, order("aks", open_video=open_nothing)).is_video_gone


def test_a_sampler_cannot_take_the_scenes_from_the_other(worker: Worker) -> None:
    result = finished(worker, order("clearing", "shot", is_control_first=False))
    assert result.shadow is not None
    assert result.shadow.scene_coverage is not None


def test_a_result_crosses_as_json_unchanged(worker: Worker) -> None:
    result = finished(worker, order("bolt"))
    assert RESULT.validate_json(RESULT.dump_json(result)) == result


def test_the_made_order_is_what_uniform_would_not_choose() -> None:
    video = make_video(60)
    sampler = UniformSampler(UniformSampler.Options(), encoder="default")
    assert tuple(sampler.select(video, None, BUDGET, None)) != served().indices
