"""Outside samplers that harm the process that they run in, beyond what `rogue_samplers` do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from samplers.contract import Scene, VideoHandle
from tests.app.rogue_samplers import TARGETS as OTHER_TARGETS
from tests.app.rogue_samplers import Outside


def _first(video: VideoHandle, budget: int) -> list[int]:
    return [int(index) for index in video.candidates[:budget]]


def _spin() -> None:
    while True:
        pass


class Spinning(Outside):
    """Ignores every signal that can be ignored, and spins."""

    id = "spinning"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        _spin()


class Forking(Outside):
    """Starts a process that sleeps on, writes its number where told, and then sleeps itself."""

    id = "forking"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        Path(str(query)).write_text(str(child.pid))
        child.wait()


class Scribbling(Outside):
    """Closes every descriptor that is not its own, then returns what nobody can read any more."""

    id = "scribbling"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        os.closerange(3, 256)
        return _first(video, budget)


class Babbling(Outside):
    """Writes rubbish into every descriptor there is, and behaves."""

    id = "babbling"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b"\x00\x00\x00\x04oops")
            except OSError:
                continue
        return _first(video, budget)


class Lingering(Outside):
    """Behaves, and leaves a thread behind that spins for ever."""

    id = "lingering"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        threading.Thread(target=_spin).start()
        return _first(video, budget)


class Clearing(Outside):
    """Empties the list of scenes, and behaves."""

    id = "clearing"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        if scenes is not None:
            scenes.clear()
        return _first(video, budget)


class Counting(Outside):
    """Behaves, and needs a fifth of a second of processor time."""

    id = "counting"

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> Any:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        return _first(video, budget)


OWN = (Counting, Spinning, Forking, Scribbling, Babbling, Lingering, Clearing)
TARGETS = (*OTHER_TARGETS, *(f"{cls.__module__}:{cls.__name__}" for cls in OWN))
