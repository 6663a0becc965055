"""Who runs, who waits, and being told of it."""

from __future__ import annotations

import asyncio

import pytest

from app.answer_load import AnswerLoad

pytestmark = pytest.mark.anyio


async def test_an_answer_runs_and_waits_until_its_first_word() -> None:
    load = AnswerLoad()
    with load.seat() as seat:
        assert (load.num_running, load.num_waiting) == (1, 1)
        load.is_speaking(seat)
        assert (load.num_running, load.num_waiting) == (1, 0)
    assert (load.num_running, load.num_waiting) == (0, 0)


async def test_an_answer_that_fails_without_a_word_is_counted_off() -> None:
    load = AnswerLoad()
    with pytest.raises(RuntimeError), load.seat():
        raise RuntimeError
    assert (load.num_running, load.num_waiting) == (0, 0)


async def test_it_is_quiet_while_nobody_waits_and_few_run() -> None:
    load = AnswerLoad()
    assert load.is_quiet(0)
    with load.seat() as seat:
        assert not load.is_quiet(1)
        load.is_speaking(seat)
        assert load.is_quiet(1)
        assert not load.is_quiet(0)


async def test_whoever_waits_for_quiet_or_noise_is_told() -> None:
    load = AnswerLoad()
    async with asyncio.timeout(5):
        noise = asyncio.create_task(load.until(is_quiet=False, max_running=1))
        await asyncio.sleep(0)
        with load.seat() as seat:
            await noise
            quiet = asyncio.create_task(load.until(is_quiet=True, max_running=1))
            await asyncio.sleep(0)
            assert not quiet.done()
            load.is_speaking(seat)
            await quiet
