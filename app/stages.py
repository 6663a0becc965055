"""The stage clients that the pipeline calls. `main.py` builds them, so that one can move away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

from app.answer_events import Emit
from app.answer_generator import AnswerGenerator
from app.answer_telemetry import noted_generation, record_selection
from app.budget import Budget, BudgetRule, BudgetTerms, frame_budget
from app.decide import SamplerDecider
from app.encode import FrameEncoder
from app.encoders.contract import EncoderClient
from app.errors import VideoNotReadyError
from app.evidence import DeploymentFacts, EvidenceParts
from app.generate.contract import TextDelta, Usage
from app.index import Indexer
from app.question import Question
from app.reduce.contract import ReducedTokens, Reducer
from app.sampler_table import SamplerTable
from app.select_frames import FrameSelector, Selection
from app.selection_inputs import QueryLookup, SelectionInputs, SelectionInputsGatherer
from app.stage_clock import StageClock
from app.stores.eviction import Evictor
from app.stores.library import StoredVideo, VideoLibrary
from flags.evaluate import Decision
from observability.metrics import Metrics
from observability.stages import SpanTimer
from samplers.contract import FeaturesMissingError, FloatArray


@dataclass(frozen=True, slots=True)
class Stages:
    """Everything one question passes through, in the order of the pipeline."""

    indexer: Indexer
    evictor: Evictor
    library: VideoLibrary
    encoder: EncoderClient
    decider: SamplerDecider
    budget_rule: BudgetRule
    inputs: SelectionInputsGatherer
    selector: FrameSelector
    table: SamplerTable
    frame_encoder: FrameEncoder
    reducer: Reducer
    generator: AnswerGenerator
    profile: str
    metrics: Metrics

    @asynccontextmanager
    async def ready(self, question: Question, clock: StageClock, emit: Emit) -> AsyncIterator[bool]:
        """Waits until the video is ready; its derived data stay in the store until the block ends.

        True when it was ready already.
        """
        video_id = question.video_id
        was_stored = True
        with self.evictor.pinned(video_id):
            with clock.waiting():
                async for progress in self.indexer.until_ready(
                    question.tenant, video_id, question.wait_s
                ):
                    was_stored = False
                    await emit(progress)
            yield was_stored

    def decide(self, question: Question) -> Decision:
        return self.decider.decide(question)

    def query_vector(
        self, decision: Decision, question: Question
    ) -> AbstractAsyncContextManager[Awaitable[QueryLookup]]:
        """Asks the encoder process, which works while the video is opened."""
        return self.inputs.looking_up(decision.sampler_id, question.text)

    async def open(self, question: Question, *, was_stored: bool) -> StoredVideo:
        video = await asyncio.to_thread(self.library.open, question.video_id)
        return replace(video, was_stored=was_stored)

    async def budget(self, question: Question, video: StoredVideo) -> Budget:
        encoder = await self.encoder.info()
        last_timestamp_s = float(video.table.timestamps_s[-1])
        room = await asyncio.to_thread(self.generator.room, question, encoder, last_timestamp_s)
        per_frame = self.reducer.tokens_per_frame(encoder.tokens_per_picture)
        terms = BudgetTerms(
            video_seconds=video.table.duration_s,
            num_candidates=video.table.num_candidates,
            free_context_tokens=room.free_tokens,
            tokens_per_frame=per_frame * room.tokens_per_vision_token,
            requested_frames=question.requested_frames,
        )
        return frame_budget(self.budget_rule, terms)

    async def gather(
        self, lookup: Awaitable[QueryLookup], video: StoredVideo, question: Question, budget: Budget
    ) -> SelectionInputs:
        """What the sampler may read; waits for the query vector."""
        encoder = await self.encoder.info()
        return self.inputs.gather(await lookup, video, encoder, question.text, budget.frames)

    async def select_frames(self, decision: Decision, inputs: SelectionInputs) -> Selection:
        return await self.selector.select_frames(decision.sampler_id, inputs.request)

    async def encode(self, video: StoredVideo, indices: list[int]) -> FloatArray:
        try:
            return await self.frame_encoder.encode(video, indices)
        except FeaturesMissingError as exc:
            raise VideoNotReadyError("The video's features were lost; ask again.") from exc

    async def reduce(self, tokens: FloatArray) -> ReducedTokens:
        return await asyncio.to_thread(self.reducer.reduce, tokens)

    async def generate(
        self, question: Question, reduced: ReducedTokens, seconds: list[float], timer: SpanTimer
    ) -> AsyncGenerator[TextDelta | Usage, None]:
        encoder = await self.encoder.info()
        pieces = self.generator.generate(question, reduced, encoder, seconds)
        return noted_generation(pieces, timer, self.generator.llm.llm_id, question.options)

    async def facts(self) -> DeploymentFacts:
        encoder = await self.encoder.info()
        return DeploymentFacts(
            table=self.table,
            reducer_id=self.reducer.id,
            encoder_id=encoder.encoder_id,
            llm_id=self.generator.llm.llm_id,
            profile=self.profile,
        )

    def record(self, parts: EvidenceParts) -> None:
        record_selection(parts, self.table, self.decider, self.metrics)
