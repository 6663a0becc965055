"""Where samplers run: built-ins in threads, all others in processes that can be killed.

A deadline that only stops waiting is none: a thread that hangs starves its pool. Built-ins are
bounded by construction, unless they ask a model; those, and outside samplers, run where they can be
killed. What asks a model takes seconds, so it has processes of its own.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from app.model_selections import prepare_model_process, run_model_task
from app.sampler_table import SamplerTable
from app.scorer.spec import ScorerSpec
from app.select_frames import (
    CheckedSelection,
    SelectionFailedError,
    SelectionRequest,
    run_checked,
)
from app.selection_processes import (
    ProcessWork,
    SamplerTarget,
    SelectionProcesses,
    SelectionTask,
    load_samplers,
    run_task,
)
from app.settings import Settings
from observability.names import SamplerFailure
from observability.stages import inject_context, run_in_thread


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSizes:
    threads: int
    """For built-ins."""
    processes: int
    """For outside samplers."""
    model_processes: int = 1
    """For samplers that ask a model."""

    @classmethod
    def of(cls, settings: Settings) -> PoolSizes:
        return cls(
            threads=settings.selection_threads,
            processes=settings.selection_processes,
            model_processes=settings.model_selection_processes,
        )


class SamplerPools:
    """Threads and processes for selections. `close` ends all, whatever they are doing."""

    def __init__(
        self, table: SamplerTable, sizes: PoolSizes, scorer: ScorerSpec | None = None
    ) -> None:
        """Processes start at once where there are samplers for them."""
        self._table = table
        self._scorer = scorer
        self._threads = ThreadPoolExecutor(sizes.threads, thread_name_prefix="select")
        outside = tuple(
            entry.target for entry in table.registry.entries.values() if not entry.is_builtin
        )
        self._processes = SelectionProcesses(
            sizes.processes, ProcessWork(run_task, load_samplers, (outside,))
        )
        self._model_processes = SelectionProcesses(
            sizes.model_processes,
            ProcessWork(run_model_task, prepare_model_process, (outside, scorer)),
        )
        if outside:
            self._processes.start()
        if scorer is not None and any(table.uses_scorer(one) for one in table.ids):
            self._model_processes.start()

    @property
    def num_restarts(self) -> int:
        """Selection processes that ended, or were killed, and were started again."""
        return self._processes.num_restarts + self._model_processes.num_restarts

    async def run_sampler(
        self, sampler_id: str, request: SelectionRequest, deadline_s: float
    ) -> CheckedSelection:
        """The checked selection. Raises `SelectionFailedError`, or `TimeoutError`."""
        problem = self._table.why_unusable(sampler_id)
        if problem is not None:
            raise SelectionFailedError(SamplerFailure.DEPENDENCY, problem)
        sampler = self._table.builtin(sampler_id)
        if sampler is None:
            return await self._run_in_process(sampler_id, request, deadline_s)
        async with asyncio.timeout(deadline_s):
            return await run_in_thread(self._threads, run_checked, sampler, request)

    async def _run_in_process(
        self, sampler_id: str, request: SelectionRequest, deadline_s: float
    ) -> CheckedSelection:
        entry = self._table.entry(sampler_id)
        asks_model = self._table.uses_scorer(sampler_id)
        task = SelectionTask(
            sampler=SamplerTarget(
                target=entry.target,
                is_builtin=entry.is_builtin,
                options=tuple(self._table.options(sampler_id).items()),
                encoder=self._table.encoder,
            ),
            scorer=self._scorer if asks_model else None,
            video=request.video.spec,
            query=request.query,
            budget=request.budget,
            scenes=request.scenes,
            trace_context=inject_context(),
        )
        processes = self._model_processes if asks_model else self._processes
        return await processes.run(task, deadline_s)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._processes.close()
        self._model_processes.close()
