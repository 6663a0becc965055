"""Offline scores over HTTP, for operators: what a guard on `offline_score` compares."""

from __future__ import annotations

import time

from fastapi import APIRouter, Depends

from app.api.operators import OperatorGate
from app.api.problems import documented_problems
from app.api.rollout_schemas import (
    RecordedScoreDocument,
    ScoreBody,
    ScoreDocument,
    ScoreListing,
    iso,
)
from app.errors import (
    InvalidRequestError,
    LedgerUnavailableError,
    OperatorKeyError,
    UnknownSamplerError,
)
from app.offline_scores import OfflineScores
from app.rollout_side import RolloutSide
from app.stores.ledger_rows import OfflineScore
from flags.flag_edit import UneditableFlagsError, read_serving


def offline_scores_router(side: RolloutSide, gate: OperatorGate) -> APIRouter:
    router = APIRouter(
        prefix="/v1/offline-scores",
        tags=["operators"],
        dependencies=[Depends(gate)],
        responses=documented_problems(
            OperatorKeyError, UnknownSamplerError, InvalidRequestError, LedgerUnavailableError
        ),
    )

    @router.post("", status_code=201, summary="Record how a sampler did outside the service")
    async def record_score(body: ScoreBody) -> RecordedScoreDocument:
        if body.sampler not in side.table.ids:
            raise UnknownSamplerError(f"There is no sampler `{body.sampler}`.")
        score = OfflineScore(
            sampler_id=body.sampler,
            sampler_version=side.table.version(body.sampler),
            score=body.score,
            dataset=body.dataset,
            num_questions=body.num_questions,
            who=body.who,
            why=body.why,
            at_s=time.time(),
        )
        await side.calls.run(side.ledger.put_offline_score, score)
        ahead = await side.calls.run(_next_step, side, score)
        return RecordedScoreDocument(**score_document(score).model_dump(), next=ahead)

    @router.get("", summary="All recorded scores, the oldest first")
    async def list_scores() -> ScoreListing:
        scores = await side.calls.run(side.ledger.offline_scores)
        return ScoreListing(scores=[score_document(score) for score in scores])

    return router


def _next_step(side: RolloutSide, score: OfflineScore) -> str:
    active = side.ledger.active_rollout()
    control = _everyone(side) if active is None else active.plan.control
    return OfflineScores(side.ledger, side.facts).next_step(score, control)


def _everyone(side: RolloutSide) -> str | None:
    try:
        return read_serving(side.editor.read(), side.table.ids).everyone
    except UneditableFlagsError:
        return None


def score_document(score: OfflineScore) -> ScoreDocument:
    return ScoreDocument(
        sampler=score.sampler_id,
        version=score.sampler_version,
        score=score.score,
        dataset=score.dataset,
        num_questions=score.num_questions,
        who=score.who,
        why=score.why,
        at=iso(score.at_s),
    )
