from __future__ import annotations

from functools import partial

import anyio
import pytest

from flags.watch import watch
from tests.flags.flag_files import FlagWorld, put, serving


async def alarm_stands(world: FlagWorld, *, is_raised: bool) -> None:
    for _ in range(1_000):
        if (world.file.alarm is not None) == is_raised:
            return
        await anyio.sleep(0.01)
    pytest.fail(f"the alarm did not {'rise' if is_raised else 'clear'}")


@pytest.mark.anyio
async def test_the_alarm_rises_and_clears_without_any_decision(world: FlagWorld) -> None:
    world.open(serving("bolt"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, world.file)
        await anyio.sleep(0.2)
        put(world.path, "{}")
        await alarm_stands(world, is_raised=True)
        put(world.path, serving("aks"))
        await alarm_stands(world, is_raised=False)
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_folder_that_comes_later_is_watched(world: FlagWorld) -> None:
    world.path = world.folder / "later" / "flags.json"
    world.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(watch, world.file, idle_look_s=0.05))
        world.path.parent.mkdir()
        put(world.path, serving("aks"))
        await alarm_stands(world, is_raised=False)
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_cancelling_does_not_wait_for_the_next_idle_look(world: FlagWorld) -> None:
    world.open(serving("bolt"))
    with anyio.fail_after(30):
        with anyio.move_on_after(0.3):
            await watch(world.file, idle_look_s=60)
