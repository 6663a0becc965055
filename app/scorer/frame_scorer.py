"""`OpenAIFrameScorer`: a `FrameScorer` that asks a vision-language model over HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from app.scorer.account import SelectionAccount
from app.scorer.backend import ScorerBackend, process_backend
from app.scorer.cache import ScoreCache, ScoreKey, ScoreValue
from app.scorer.client import ScoringClient
from app.scorer.pictures import SmallPictures
from app.scorer.prompts import (
    MAX_RATED_FRAMES,
    MAX_RATING_TOKENS,
    PROMPT_VERSION,
    ContentPart,
    frame_prompt,
    range_prompt,
    set_prompt,
)
from app.scorer.reply import ScorerRefusalError, yes_probability
from app.scorer.spec import ModelCost, ScoreNamespace, ScorerSpec
from app.stores.layout import DataLayout
from app.stores.video_handle import VideoHandleSpec
from samplers.contract import FloatArray, ScorerUnavailableError, VideoHandle

YES_OR_NO: dict[str, object] = {"max_tokens": 1, "logprobs": True, "top_logprobs": 20}
RATING: dict[str, object] = {"max_tokens": MAX_RATING_TOKENS}


class Question(StrEnum):
    """Part of the cache's keys."""

    FRAME = "frame"
    SET = "set"
    RANGES = "ranges"


@dataclass(frozen=True, slots=True)
class ScoredSelection:
    """What a scorer is made for: one selection on one video."""

    video: VideoHandleSpec
    namespace: ScoreNamespace
    deadline_s: float
    """For all questions of the selection together, from the scorer's making on."""


class OpenAIFrameScorer:
    """Made for one selection: it holds that selection's deadline and bill.

    All or nothing: where one call fails for good, the question raises; what was answered by then is
    in the cache, and need not be asked again.
    """

    def __init__(self, backend: ScorerBackend, selection: ScoredSelection) -> None:
        """Raises `ScorerUnavailableError` where the video's pictures are gone."""
        spec, layout = selection.video, DataLayout(selection.video.data_dir)
        self._backend = backend
        self._video = spec
        self._account = SelectionAccount(backend.spec.model_id, selection.deadline_s)
        self._cache = ScoreCache(
            layout.model_scores(spec.video_id, str(selection.namespace)), backend.spec.cache_bytes
        )
        folder = layout.frames(spec.video_id, spec.fps, spec.decode_version)
        try:
            self._pictures = SmallPictures(folder)
        except OSError as exc:
            raise ScorerUnavailableError("The video's pictures are not there any more.") from exc

    @property
    def cost(self) -> ModelCost:
        """So far."""
        return self._account.cost

    @property
    def num_calls(self) -> int:
        return self.cost.calls

    @property
    def num_tokens(self) -> int:
        """Read and written by the model."""
        return self.cost.input_tokens + self.cost.output_tokens

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        """As `FrameScorer.score`. Raises IndexError for rows that are none."""
        return self._scored(Question.FRAME, video, query, [(int(row),) for row in rows])

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        """As `FrameScorer.score_sets`. Raises IndexError for rows that are none."""
        groups = [tuple(int(row) for row in rows) for rows in sets]
        if not all(groups):
            raise ValueError("a set of frames holds at least one")
        return self._scored(Question.SET, video, query, groups)

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        """As `FrameScorer.rate_ranges`, of at most `MAX_RATED_FRAMES` rows."""
        if not 0 < len(rows) <= MAX_RATED_FRAMES:
            raise ValueError(f"1 to {MAX_RATED_FRAMES} frames can be rated, not {len(rows)}")
        [key] = self._keys(Question.RANGES, video, query, [tuple(int(row) for row in rows)])
        known = self._cache.read([key]).get(key)
        if isinstance(known, str):
            self._account.add(cached_scores=1)
            return known
        self._account.add(missed_scores=1)
        fresh: dict[ScoreKey, ScoreValue] = {}
        self._ask([key], fresh)
        return str(fresh[key])

    def _scored(
        self, kind: Question, video: VideoHandle, query: str, groups: list[tuple[int, ...]]
    ) -> FloatArray:
        keys = self._keys(kind, video, query, groups)
        scores = self._cache.read(list(dict.fromkeys(keys)))
        missing = [key for key in dict.fromkeys(keys) if key not in scores]
        self._account.add(cached_scores=len(scores), missed_scores=len(missing))
        if missing:
            self._ask(missing, scores)
        values = np.array([_number(scores[key]) for key in keys], dtype=np.float32)
        if len(values) and np.isnan(values).all():
            raise ScorerUnavailableError(
                f"The scoring model {self._backend.spec.model_id} said neither yes nor no to any "
                f"of {len(values)} questions: it is none that answers in one word."
            )
        return values

    def _ask(self, keys: list[ScoreKey], scores: dict[ScoreKey, ScoreValue]) -> None:
        """Adds the model's answers to `scores`, and to the cache, as far as it gets."""
        fresh: dict[ScoreKey, ScoreValue] = {}
        try:
            self._backend.ask(partial(self._ask_all, keys, fresh), self._account)
        finally:
            self._cache.write(fresh)
            scores |= fresh

    async def _ask_all(
        self, keys: list[ScoreKey], fresh: dict[ScoreKey, ScoreValue], client: ScoringClient
    ) -> None:
        async def ask_one(key: ScoreKey) -> None:
            fresh[key] = await self._answer(client, key)

        await client.run_all([partial(ask_one, key) for key in keys], self._account)

    async def _answer(self, client: ScoringClient, key: ScoreKey) -> ScoreValue:
        # In a thread: the loop has other calls to look after, and scaling leaves the lock.
        parts = await asyncio.to_thread(self._prompt, key)
        if key.kind == Question.RANGES:
            return (await client.ask(parts, RATING, self._account)).text
        probability = yes_probability(await client.ask(parts, YES_OR_NO, self._account))
        return None if math.isnan(probability) else probability

    def _prompt(self, key: ScoreKey) -> list[ContentPart]:
        try:
            pictures = [self._pictures.data_url(row, key.picture_px) for row in key.rows]
        except OSError as exc:
            raise ScorerRefusalError(f"A picture of the video cannot be read: {exc}") from exc
        if key.kind == Question.FRAME:
            return frame_prompt(key.query, pictures[0])
        if key.kind == Question.SET:
            return set_prompt(key.query, pictures)
        return range_prompt(key.query, pictures)

    def _keys(
        self, kind: Question, video: VideoHandle, query: str, groups: list[tuple[int, ...]]
    ) -> list[ScoreKey]:
        if video.video_id != self._video.video_id:
            raise ValueError("a scorer is made for one video")
        num_rows = self._pictures.num_pictures
        for row in (row for group in groups for row in group):
            if not 0 <= row < num_rows:
                raise IndexError(f"candidate row {row} is outside 0..{num_rows - 1}")
        spec = self._backend.spec
        side_px = spec.range_picture_px if kind is Question.RANGES else spec.picture_px
        return [
            ScoreKey(
                kind=str(kind),
                video_id=self._video.video_id,
                fps=self._video.fps,
                decode_version=self._video.decode_version,
                model_id=spec.model_id,
                prompt_version=PROMPT_VERSION,
                picture_px=side_px,
                query=query,
                rows=group,
            )
            for group in groups
        ]


def _number(value: ScoreValue) -> float:
    return value if isinstance(value, float) else math.nan


def open_frame_scorer(spec: ScorerSpec, selection: ScoredSelection) -> OpenAIFrameScorer:
    """In any process. Raises `ScorerUnavailableError`."""
    return OpenAIFrameScorer(process_backend(spec), selection)
