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

from pebble import ProcessPool

from app.sampler_table import SamplerTable
from app.select_frames import SelectionRequest
from app.stores.library import open_video_handle
from app.stores.video_handle import VideoHandleSpec
from observability.stages import extracted_context, inject_context, run_in_thread
from samplers.contract import Sampler, Scene
from samplers.registry import load_registry


@dataclass(frozen=True, slots=True)
class SelectionTask:
    """One selection, as another process needs it. Picklable; holds no arrays but the query vector."""

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


def run_task(task: SelectionTask) -> object:
    """In the selection process: build the sampler once, open the video, select."""
    sampler = _outside_sampler(task.target, task.options, task.encoder)
    with extracted_context(task.trace_context):
        video = open_video_handle(task.video)
        return sampler.select(video, task.query, task.budget, task.scenes)


def load_outside_samplers(targets: tuple[str, ...]) -> None:
    """In the selection process, at its start: the imports that a first selection would wait for."""
    load_registry(targets)


class SamplerPools:
    """Threads and processes for selections. `close` ends both, whatever they are doing."""

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
        if outside:
            self._processes.schedule(load_outside_samplers, args=(outside,))

    async def run_sampler(self, sampler_id: str, request: SelectionRequest) -> object:
        """What the sampler returned, unchecked; raises what it raised.

        Cancelling the call (its deadline) kills the process of an outside sampler.
        """
        sampler = self._table.builtin(sampler_id)
        if sampler is None:
            return await self._run_in_process(sampler_id, request)
        return await run_in_thread(
            self._threads,
            sampler.select,
            request.video,
            request.query,
            request.budget,
            request.scenes,
        )

    async def _run_in_process(self, sampler_id: str, request: SelectionRequest) -> object:
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
        future: Future[object] = self._processes.schedule(run_task, args=(task,))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._processes.stop()
        self._processes.join()
