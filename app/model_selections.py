"""Selections by samplers that ask a model, in the processes that are kept for them."""

from __future__ import annotations

from app.scorer.backend import process_backend
from app.scorer.frame_scorer import OpenAIFrameScorer, ScoredSelection, open_frame_scorer
from app.scorer.spec import SCORER_SHARE, ScoreNamespace, ScorerSpec
from app.select_frames import CheckedSelection, foreign_code, run_checked
from app.selection_processes import SelectionTask, built_sampler, load_samplers
from observability.stages import extracted_context
from samplers.contract import FeaturesMissingError, SamplerError, ScorerUnavailableError


def run_model_task(task: SelectionTask, deadline_s: float) -> CheckedSelection:
    """In the selection process, which is killed after `deadline_s`. Raises
    `SelectionFailedError`."""
    with foreign_code():
        try:
            request, scorer = task.request(), _scorer(task, deadline_s)
            # Built anew: the scorer has this selection's deadline, and its bill.
            sampler = built_sampler(task.sampler, scorer)
        except (SamplerError, OSError) as exc:
            raise FeaturesMissingError(str(exc)) from None
    with extracted_context(task.trace_context):
        return run_checked(sampler, request, lambda: scorer.cost)


def prepare_model_process(outside_targets: tuple[str, ...], scorer: ScorerSpec | None) -> None:
    """In the selection process, at its start: what a first selection would wait for."""
    load_samplers(outside_targets)
    if scorer is not None:
        process_backend(scorer)


def _scorer(task: SelectionTask, deadline_s: float) -> OpenAIFrameScorer:
    if task.scorer is None:
        raise ScorerUnavailableError("no scoring model is configured")
    selection = ScoredSelection(task.video, ScoreNamespace.ANSWERS, SCORER_SHARE * deadline_s)
    return open_frame_scorer(task.scorer, selection)
