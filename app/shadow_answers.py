"""Answers from the shadow's frames: one at a time, and only while no user waits for a first word.

A server of language models knows no priorities that could be relied on, so the priority is here:
an answer in shadow waits for a quiet moment, is given up when none comes, and is stopped (which
frees the server) as soon as a user's answer waits or too many run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from app.answer_generator import AnswerGenerator
from app.answer_load import AnswerLoad
from app.encode import FrameEncoder
from app.encoders.contract import EncoderClient
from app.errors import FramegateError
from app.generate.contract import TextDelta, Usage
from app.question import Question
from app.reduce.contract import Reducer
from app.shadow_vectors import ShadowVectors
from app.stores.library import StoredVideo
from observability.shadow_names import ShadowAnswer
from samplers.contract import FeaturesMissingError
from shadow.agreement import AgreementMethod, exact_agreement, normalised
from shadow.compare import answer_cosine
from shadow.records import ComparisonRecord


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """A finished comparison whose shadow frames shall be answered, too."""

    record: ComparisonRecord
    question: Question
    video: StoredVideo
    control_answer: str


@dataclass(frozen=True, slots=True)
class ShadowAnswerRules:
    max_running: int
    """No answer is made in shadow while more answers than this run."""
    wait_s: float
    """For a quiet moment; then it is given up."""
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AnswererParts:
    """The stages that the shadow's frames pass through: those of the answers."""

    encoder: EncoderClient
    frame_encoder: FrameEncoder
    reducer: Reducer
    generator: AnswerGenerator
    vectors: ShadowVectors
    load: AnswerLoad
    rules: ShadowAnswerRules


@dataclass(frozen=True, slots=True)
class _Generated:
    text: str
    output_tokens: int


class ShadowAnswerer:
    """`finish` gets every job's record, with the answers compared or as it was. One event loop."""

    def __init__(
        self,
        parts: AnswererParts,
        finish: Callable[[ComparisonRecord, ShadowAnswer], None],
    ) -> None:
        self._parts = parts
        self._finish = finish
        self._task: asyncio.Task[None] | None = None

    def offer(self, job: AnswerJob) -> None:
        """Give it up at once while another one is in work."""
        if self._task is not None and not self._task.done():
            self._finish(job.record, ShadowAnswer.SHED)
            return
        self._task = asyncio.create_task(self._work(job), name="answer in shadow")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self, job: AnswerJob) -> None:
        """However it ends, the record is passed on."""
        record, outcome = job.record, ShadowAnswer.SHED
        try:
            compared = await self._while_quiet(job)
            if compared is not None:
                record, outcome = compared, ShadowAnswer.COMPARED
        except (FramegateError, FeaturesMissingError, OSError):
            outcome = ShadowAnswer.FAILED
        finally:
            self._finish(record, outcome)

    async def _while_quiet(self, job: AnswerJob) -> ComparisonRecord | None:
        """None: users came first. Raises `FramegateError`, `FeaturesMissingError`, OSError."""
        rules, load = self._parts.rules, self._parts.load
        try:
            async with asyncio.timeout(rules.wait_s):
                await load.until(is_quiet=True, max_running=rules.max_running)
        except TimeoutError:
            return None
        comparing = asyncio.create_task(self._compared(job))
        disturbed = asyncio.create_task(load.until(is_quiet=False, max_running=rules.max_running))
        tasks = {comparing, disturbed}
        try:
            await asyncio.wait(tasks, timeout=rules.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return comparing.result() if comparing.done() else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _compared(self, job: AnswerJob) -> ComparisonRecord | None:
        made = await self._generated(job)
        agreement, method = await self._agreement(job.question.text, job.control_answer, made.text)
        if agreement is None:
            return None
        record = job.record
        return replace(
            record,
            control=replace(record.control, answer=job.control_answer),
            shadow=replace(record.shadow, answer=made.text, output_tokens=made.output_tokens),
            answers_agree=agreement,
            agreement_method=str(method),
        )

    async def _generated(self, job: AnswerJob) -> _Generated:
        """At temperature 0, whatever the user's was."""
        parts = self._parts
        indices = list(job.record.shadow.indices)
        tokens = await parts.frame_encoder.encode(job.video, indices)
        reduced = await asyncio.to_thread(parts.reducer.reduce, tokens)
        question = replace(
            job.question, options=replace(job.question.options, temperature=0.0, seed=None)
        )
        encoder = await parts.encoder.info()
        pieces = parts.generator.generate(question, reduced, encoder, job.video.seconds(indices))
        words: list[str] = []
        output_tokens = 0
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    words.append(piece.text)
                elif isinstance(piece, Usage):
                    output_tokens = piece.output_tokens
        return _Generated("".join(words).strip(), output_tokens)

    async def _agreement(
        self, question: str, first: str, second: str
    ) -> tuple[float | None, AgreementMethod]:
        """None: the encoder process is away."""
        exact = exact_agreement(question, first, second)
        if exact is not None:
            return exact, AgreementMethod.EXACT
        if normalised(first) == normalised(second):
            return 1.0, AgreementMethod.EMBEDDING
        found = [await self._parts.vectors.get(text) for text in (first, second)]
        vectors = [one.vector.vector for one in found if one is not None]
        if len(vectors) < 2:
            return None, AgreementMethod.EMBEDDING
        return answer_cosine(*vectors), AgreementMethod.EMBEDDING
