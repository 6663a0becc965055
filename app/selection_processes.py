"""Selections in processes that can be killed, whatever a sampler does in them."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache

from pebble import ProcessExpired, ProcessPool

from app.scorer.spec import ScorerSpec
from app.select_frames import (
    CheckedSelection,
    SelectionFailedError,
    SelectionRequest,
    foreign_code,
    run_checked,
)
from app.stores.library import open_video_handle
from app.stores.video_handle import VideoHandleSpec
from observability.names import SamplerFailure
from observability.stages import extracted_context
from samplers.contract import FeaturesMissingError, FrameScorer, Sampler, SamplerError, Scene
from samplers.registry import SamplerEntry, load_registry

PROCESS_START_S = 5.0
"""How long a selection waits, beyond its deadline, for a process that is starting."""


@dataclass(frozen=True, slots=True)
class SamplerTarget:
    """A sampler as another process builds it."""

    target: str
    """`module:Class`."""
    is_builtin: bool
    options: tuple[tuple[str, object], ...]
    encoder: str


@dataclass(frozen=True, slots=True)
class SelectionTask:
    """One selection, as another process needs it: picklable, no arrays but the query vector."""

    sampler: SamplerTarget
    scorer: ScorerSpec | None
    """None: the sampler asks no model."""
    video: VideoHandleSpec
    query: str | None
    budget: int
    scenes: list[Scene] | None
    trace_context: Mapping[str, str]

    def request(self) -> SelectionRequest:
        """Raises FileNotFoundError when the video is gone."""
        video = open_video_handle(self.video)
        return SelectionRequest(video, self.query, self.budget, self.scenes)


@lru_cache(maxsize=64)
def _entry(target: str, *, is_builtin: bool) -> SamplerEntry:
    registry = load_registry(() if is_builtin else (target,))
    return next(entry for entry in registry.entries.values() if entry.target == target)


def built_sampler(target: SamplerTarget, scorer: FrameScorer | None = None) -> Sampler:
    """Raises `SamplerError`."""
    entry = _entry(target.target, is_builtin=target.is_builtin)
    return entry.build(dict(target.options), encoder=target.encoder, scorer=scorer)


@lru_cache(maxsize=64)
def _kept_sampler(target: SamplerTarget) -> Sampler:
    return built_sampler(target)


def run_task(task: SelectionTask, deadline_s: float) -> CheckedSelection:
    """In the selection process, which is killed after `deadline_s`. Raises
    `SelectionFailedError`."""
    del deadline_s
    with foreign_code():
        try:
            sampler, request = _kept_sampler(task.sampler), task.request()
        except (SamplerError, OSError) as exc:
            raise FeaturesMissingError(str(exc)) from None
    with extracted_context(task.trace_context):
        return run_checked(sampler, request)


def load_samplers(outside_targets: tuple[str, ...]) -> None:
    """In the selection process, at its start: what a first selection would wait for."""
    load_registry(outside_targets)


@dataclass(frozen=True, slots=True)
class ProcessWork:
    """What a pool's processes do; functions of a module, so that they import no more than that."""

    run: Callable[[SelectionTask, float], CheckedSelection]
    prepare: Callable[..., None]
    """Called once in each process, with `arguments`."""
    arguments: tuple[object, ...]


class SelectionProcesses:
    """A pool of them, each with one selection at a time.

    `num_restarts`: processes that ended, or were killed, and were started again.
    """

    def __init__(self, num_processes: int, work: ProcessWork) -> None:
        """None starts before `start` or the first selection."""
        self.num_restarts = 0
        self._work = work
        self._pool = ProcessPool(
            max_workers=num_processes,
            initializer=work.prepare,
            initargs=work.arguments,
            context=multiprocessing.get_context("spawn"),
        )

    def start(self) -> None:
        self._pool.schedule(self._work.prepare, args=self._work.arguments)

    async def run(self, task: SelectionTask, deadline_s: float) -> CheckedSelection:
        """The checked selection. Raises `SelectionFailedError`, or `TimeoutError`.

        What overruns is killed with its process, and so is what nobody waits for any more.
        """
        # The pool's clock starts when a process takes the task up, and kills it; ours bounds the
        # wait for a process, which is being started anew when the one before was killed.
        future: Future[CheckedSelection] = self._pool.schedule(
            self._work.run, args=(task, deadline_s), timeout=deadline_s
        )
        try:
            return await _within(future, deadline_s + PROCESS_START_S)
        except _NeverStartedError as exc:
            # Samplers that ask a model wait for each other, which is nobody's fault; others wait
            # only for a process that must be started again and again.
            if task.scorer is None:
                raise TimeoutError from exc
            raise SelectionFailedError(SamplerFailure.DEPENDENCY, str(exc)) from exc
        except TimeoutError:
            self.num_restarts += 1
            raise
        except ProcessExpired as exc:
            self.num_restarts += 1
            raise SelectionFailedError(
                SamplerFailure.RAISED, f"it ended its process (code {exc.exitcode})"
            ) from exc

    def close(self) -> None:
        self._pool.stop()  # type: ignore[no-untyped-call]  # pebble leaves it untyped
        self._pool.join()


class _NeverStartedError(Exception):
    """No process took the task up in time."""


async def _within(future: Future[CheckedSelection], wait_s: float) -> CheckedSelection:
    """Raises `TimeoutError`, `_NeverStartedError` and what the task raises."""
    waiting = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait({waiting}, timeout=wait_s)
        if done:
            return waiting.result()
        if future.running():
            raise TimeoutError
        raise _NeverStartedError(f"every selection process was busy for {wait_s:g} s")
    finally:
        waiting.cancel()
