"""The seconds of an answer's stages."""

from __future__ import annotations

import pytest

from app.stage_clock import WAIT, StageClock
from observability.names import Stage


def test_stages_stand_in_the_order_in_which_they_ended() -> None:
    clock = StageClock()
    with clock.waiting():
        pass
    with clock.stage(Stage.SELECT_FRAMES):
        pass
    with clock.stage(Stage.ENCODE):
        pass

    assert list(clock.seconds) == [WAIT, "select_frames", "encode", "total"]


def test_a_stage_that_has_not_ended_is_not_there() -> None:
    clock = StageClock()
    with clock.stage(Stage.GENERATE) as timer:
        assert list(clock.seconds) == ["total"]
        assert timer.seconds >= 0


@pytest.mark.parametrize("name", [Stage.GENERATE, None])
def test_a_stage_that_failed_is_there(name: Stage | None) -> None:
    clock = StageClock()
    context = clock.waiting() if name is None else clock.stage(name)
    with pytest.raises(RuntimeError), context:
        raise RuntimeError

    assert list(clock.seconds) == [WAIT if name is None else "generate", "total"]


def test_the_total_covers_the_stages() -> None:
    clock = StageClock()
    with clock.stage(Stage.REDUCE):
        sum(range(10_000))
    seconds = clock.seconds

    assert seconds["total"] >= seconds["reduce"] > 0
