"""Where samplers run: built-ins in threads of their own, outside samplers in killable processes.

A deadline that only stops waiting is none: a thread that hangs starves its pool. Built-ins are
bounded by construction; anything else runs where it can be killed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from pebble import ProcessExpired, ProcessPool

from app.sampler_table import SamplerTable
from app.select_frames import (
    CheckedSelection,
    SelectionFailedError,
    SelectionRequest,
    run_checked,
)
from app.stores.library import open_video_handle
from app.stores.video_handle import VideoHandleSpec
from observability.names import SamplerFailure
from observability.stages import extracted_context, inject_context, run_in_thread
from samplers.contract import Sampler, SamplerError, Scene
from samplers.registry import load_registry

PROCESS_START_S = 5.0
"""How long a selection waits, beyond its deadline, for a process that is starting."""


@dataclass(frozen=True, slots=True)
class SelectionTask:
    """One selection, as another process needs it: picklable, no arrays but the query vector."""

    target: str
    options: tuple[tuple[str, object], ...]
    encoder: str
    video: VideoHandleSpec
    query: str | None
    budget: int
    scenes: list[Scene] | None
    trace_context: Mapping[str, str]


@lru_cache(maxsize=64)
def _outside_sampler(target: str, options: tuple[tuple[str, object], ...], encoder: str) -> Sampler:
    registry = load_registry([target])
    entry = next(entry for entry in registry.entries.values() if entry.target == target)
    return entry.build(dict(options), encoder=encoder)


def run_task(task: SelectionTask) -> CheckedSelection:
    """In the selection process. Raises `SelectionFailedError`."""
    try:
        sampler = _outside_sampler(task.target, task.options, task.encoder)
        video = open_video_handle(task.video)
    except (SamplerError, OSError) as exc:
        raise SelectionFailedError(SamplerFailure.DEPENDENCY, str(exc)) from None
    with extracted_context(task.trace_context):
        return run_checked(sampler, SelectionRequest(video, task.query, task.budget, task.scenes))


def load_outside_samplers(targets: tuple[str, ...]) -> None:
    """In the selection process, at its start: the imports that a first selection would wait for."""
    load_registry(targets)


class SamplerPools:
    """Threads and processes for selections. `close` ends both, whatever they are doing.

    `num_restarts`: selection processes that ended, or were killed, and were started again.
    """

    def __init__(self, table: SamplerTable, *, num_threads: int, num_processes: int) -> None:
        self._table = table
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="select")
        outside = tuple(
            entry.target for entry in table.registry.entries.values() if not entry.is_builtin
        )
        self._processes = ProcessPool(
            max_workers=num_processes,
            initializer=load_outside_samplers,
            initargs=(outside,),
            context=multiprocessing.get_context("spawn"),
        )
        self.num_restarts = 0
        if outside:
            self._processes.schedule(load_outside_samplers, args=(outside,))

    async def run_sampler(
        self, sampler_id: str, request: SelectionRequest, deadline_s: float
    ) -> CheckedSelection:
        """The checked selection. Raises `SelectionFailedError`, or `TimeoutError`.

        An outside sampler that overruns is killed with its process.
        """
        sampler = self._table.builtin(sampler_id)
        if sampler is None:
            return await self._run_in_process(sampler_id, request, deadline_s)
        async with asyncio.timeout(deadline_s):
            return await run_in_thread(self._threads, run_checked, sampler, request)

    async def _run_in_process(
        self, sampler_id: str, request: SelectionRequest, deadline_s: float
    ) -> CheckedSelection:
        task = SelectionTask(
            target=self._table.entry(sampler_id).target,
            options=tuple(self._table.options(sampler_id).items()),
            encoder=self._table.encoder,
            video=request.video.spec,
            query=request.query,
            budget=request.budget,
            scenes=request.scenes,
            trace_context=inject_context(),
        )
        # The pool's clock starts when a process takes the task up, and kills it; ours bounds the
        # wait for a process, which is being started anew when the one before was killed.
        future: Future[CheckedSelection] = self._processes.schedule(
            run_task, args=(task,), timeout=deadline_s
        )
        try:
            async with asyncio.timeout(deadline_s + PROCESS_START_S):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            self.num_restarts += 1
            raise
        except ProcessExpired as exc:
            self.num_restarts += 1
            raise SelectionFailedError(
                SamplerFailure.RAISED, f"it ended its process (code {exc.exitcode})"
            ) from exc

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._processes.stop()  # type: ignore[no-untyped-call]  # pebble leaves it untyped
        self._processes.join()
