"""A gateway that is killed, by `kill -9`, at one point of a rollout's step.

    python -m tests.app.killed_gateway DATA_DIR COMMAND POINT

COMMAND is advance or rollback; POINT is `before` or `after` and a call of the ledger or of the flag
file's editor, such as `after:put_intent`. Prints the reply's status where it lives to get one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from flags.rollout import RolloutController
from tests.app.answer_world import AnswerWorld, build_world, running

BY = {"who": "ana", "why": "better on our questions"}
START = {
    "candidate": "bolt",
    "stages": [5, 50],
    "dwell_s": 3600,
    "guards": ["sampler_failure<=1%"],
    **BY,
}


class Deadly:
    """The same object; one of its calls ends the process."""

    def __init__(self, target: Any, moment: str, call: str) -> None:
        self._target, self._moment, self._call = target, moment, call
        self.is_armed = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name != self._call:
            return found

        def call(*arguments: Any) -> Any:
            if self.is_armed and self._moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = found(*arguments)
            if self.is_armed:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def deadly_world(data_dir: Path, point: str) -> tuple[AnswerWorld, list[Deadly]]:
    world = build_world(data_dir, rollout_tick_s=10.0, rollout_lease_s=10.0)
    needs = world.gateway.rollouts.controller._needs
    moment, _, call = point.partition(":")
    store, editor = (Deadly(target, moment, call) for target in (needs.store, needs.editor))
    deadly = RolloutController(replace(needs, store=store, editor=editor))
    rollouts = world.gateway.rollouts
    for name in ("_needs", "_journal", "_interruptions"):
        setattr(rollouts.controller, name, getattr(deadly, name))
    return world, [store, editor]


async def main(data_dir: Path, command: str, point: str) -> None:
    world, armed = deadly_world(data_dir, point)
    async with running(world) as client:
        started = (await client.post("/v1/rollouts", json=START)).json()
        for one in armed:
            one.is_armed = True
        reply = await client.post(f"/v1/rollouts/{started['rollout_id']}/{command}", json=BY)
        sys.stdout.write(f"{reply.status_code}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
