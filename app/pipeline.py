"""The table of contents: one question, stage by stage.

Input, decode and index happen once per video (`app/intake.py`, `app/decode.py`, `app/index.py`);
everything below happens for every question, and decodes nothing.
"""

from __future__ import annotations

from contextlib import aclosing

from app.answer_events import EmitAll, Evidence, FramesSelected
from app.evidence import SelectionParts, evidence_document
from app.question import Question
from app.stage_clock import StageClock
from app.stages import Stages
from observability.names import Stage


async def answer_question(
    question: Question, stages: Stages, clock: StageClock, emit: EmitAll
) -> None:
    """Answer `question`, emitting progress, evidence, text and usage in that order.

    Raises `FramegateError`. Cancelling it stops the generation.
    """
    async with stages.ready(question, clock, emit) as was_stored:
        decision = stages.decide(question)
        async with stages.query_vector(decision, question) as lookup:
            video = await stages.open(question, was_stored=was_stored)
            budget = await stages.budget(question, video)
            with clock.stage(Stage.SELECT_FRAMES):
                inputs = await stages.gather(lookup, video, question, budget)
                selection = await stages.select_frames(decision, inputs)
        facts = await stages.facts()
        selected = SelectionParts(question, video, decision, budget, inputs, selection)
        await emit(FramesSelected(selected, facts))
        with clock.stage(Stage.ENCODE):
            tokens = await stages.encode(video, selection.indices)
        with clock.stage(Stage.REDUCE):
            reduced = await stages.reduce(tokens)
        parts = selected.with_tokens(reduced)
        stages.record(parts)
        await emit(Evidence(evidence_document(parts, facts, clock.seconds), parts))
        with clock.stage(Stage.GENERATE) as timer:
            seconds = video.seconds(selection.indices)
            async with aclosing(await stages.generate(question, reduced, seconds, timer)) as pieces:
                async for piece in pieces:
                    await emit(piece)
