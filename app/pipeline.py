"""The table of contents: one question, stage by stage.

Input, decode and index happen once per video (`app/intake.py`, `app/decode.py`, `app/index.py`);
everything below happens for every question and decodes nothing.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.answer_events import Emit, Evidence
from app.evidence import EvidenceParts, evidence_document
from app.stage_clock import StageClock
from observability.names import Stage

if TYPE_CHECKING:
    from app.question import Question
    from app.stages import Stages


async def answer_question(
    question: Question, stages: Stages, clock: StageClock, emit: Emit
) -> None:
    """Answer `question`, emitting progress, evidence, text and usage in that order.

    Raises `FramegateError`; cancelling it stops the generation.
    """
    with clock.stage(Stage.INDEX):
        async for progress in stages.until_ready(question.video_id, question.wait_s):
            await emit(progress)
    async with stages.opened(question.video_id) as video:
        decision = stages.decide(question)
        budget = await stages.budget(question, video)
        with clock.stage(Stage.SELECT_FRAMES):
            inputs = await stages.gather(decision.sampler_id, video, question.text, budget.frames)
            selection = await stages.select_frames(decision.sampler_id, inputs.request)
        with clock.stage(Stage.ENCODE):
            tokens = await stages.encode(video, selection.indices)
        with clock.stage(Stage.REDUCE):
            reduced = await stages.reduce(tokens)
        parts = EvidenceParts(question, video, decision, budget, inputs, selection, reduced)
        await emit(Evidence(evidence_document(parts, stages.facts, clock.seconds)))
        with clock.stage(Stage.GENERATE):
            seconds = video.seconds(selection.indices)
            async with aclosing(stages.generate(question, reduced, seconds)) as pieces:
                async for piece in pieces:
                    await emit(piece)
