"""Selections in processes that can be killed, whatever a sampler does in them."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache

from pebble import ProcessExpired, ProcessPool

from app.scorer.backend import process_backend
from app.scorer.frame_scorer import OpenAIFrameScorer, ScoredSelection, open_frame_scorer
from app.scorer.spec import SCORER_SHARE, ScoreNamespace, ScorerSpec
from app.select_frames import (
    CheckedSelection,
    SelectionFailedError,
    SelectionRequest,
    run_checked,
)
from app.stores.library import open_video_handle
from app.stores.video_handle import VideoHandleSpec
from observability.names import SamplerFailure
from observability.stages import extracted_context
from samplers.contract import Sampler, SamplerError, Scene
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


@lru_cache(maxsize=64)
def _entry(target: str, *, is_builtin: bool) -> SamplerEntry:
    registry = load_registry(() if is_builtin else (target,))
    return next(entry for entry in registry.entries.values() if entry.target == target)


@lru_cache(maxsize=64)
def _sampler(target: SamplerTarget) -> Sampler:
    return _built(target, None)


def _built(target: SamplerTarget, scorer: OpenAIFrameScorer | None) -> Sampler:
    entry = _entry(target.target, is_builtin=target.is_builtin)
    return entry.build(dict(target.options), encoder=target.encoder, scorer=scorer)


def run_task(task: SelectionTask, deadline_s: float) -> CheckedSelection:
    """In the selection process. Raises `SelectionFailedError`."""
    try:
        video = open_video_handle(task.video)
        request = SelectionRequest(video, task.query, task.budget, task.scenes)
        with extracted_context(task.trace_context):
            if task.scorer is None:
                return run_checked(_sampler(task.sampler), request)
            selection = ScoredSelection(
                task.video, ScoreNamespace.ANSWERS, SCORER_SHARE * deadline_s
            )
            scorer = open_frame_scorer(task.scorer, selection)
            # Built anew: the scorer has this selection's deadline, and its bill.
            return run_checked(_built(task.sampler, scorer), request, lambda: scorer.cost)
    except (SamplerError, OSError) as exc:
        raise SelectionFailedError(SamplerFailure.DEPENDENCY, str(exc)) from None


def prepare_process(outside_targets: tuple[str, ...], scorer: ScorerSpec | None) -> None:
    """In the selection process, at its start: what a first selection would wait for."""
    load_registry(outside_targets)
    if scorer is not None:
        process_backend(scorer)


class SelectionProcesses:
    """A pool of them, each with one selection at a time.

    `num_restarts`: processes that ended, or were killed, and were started again.
    """

    def __init__(
        self, num_processes: int, outside_targets: tuple[str, ...], scorer: ScorerSpec | None
    ) -> None:
        """None starts before `start` or the first selection."""
        self.num_restarts = 0
        self._preparation = (outside_targets, scorer)
        self._pool = ProcessPool(
            max_workers=num_processes,
            initializer=prepare_process,
            initargs=self._preparation,
            context=multiprocessing.get_context("spawn"),
        )

    def start(self) -> None:
        self._pool.schedule(prepare_process, args=self._preparation)

    async def run(self, task: SelectionTask, deadline_s: float) -> CheckedSelection:
        """The checked selection. Raises `SelectionFailedError`, or `TimeoutError`.

        What overruns is killed with its process, and so is what nobody waits for any more.
        """
        # The pool's clock starts when a process takes the task up, and kills it; ours bounds the
        # wait for a process, which is being started anew when the one before was killed.
        future: Future[CheckedSelection] = self._pool.schedule(
            run_task, args=(task, deadline_s), timeout=deadline_s
        )
        try:
            return await _within(future, deadline_s + PROCESS_START_S)
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


async def _within(future: Future[CheckedSelection], wait_s: float) -> CheckedSelection:
    """Raises `SelectionFailedError` where no process took the task up: that is not its sampler's
    fault."""
    waiting = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait({waiting}, timeout=wait_s)
        if done:
            return waiting.result()
        if future.running():
            raise TimeoutError
        raise SelectionFailedError(
            SamplerFailure.DEPENDENCY, f"every selection process was busy for {wait_s:g} s"
        )
    finally:
        waiting.cancel()
