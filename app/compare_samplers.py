"""Samplers side by side: each chooses frames for one question, by the path that answers take.

One selection at a time, because the pools belong to the answers. A sampler that fails is a row that
says so. Nothing here is counted against a sampler: what an operator tries out must not look like
traffic. What it costs a scoring model is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from app.compare_documents import (
    ComparisonDocument,
    ComparisonFailureDocument,
    SimilarityDocument,
)
from app.compare_measures import (
    ComparedSampler,
    ComparedVideo,
    sampler_document,
    similarity_curve,
)
from app.encoders.contract import EncoderClient
from app.errors import VideoNotReadyError
from app.evidence import scene_documents, scorer_document
from app.index import Indexer
from app.sampler_table import SamplerTable
from app.select_frames import (
    CheckedSelection,
    FrameSelector,
    SelectionFailedError,
    note_model_cost,
)
from app.selection_inputs import QueryLookup, SelectionInputs, SelectionInputsGatherer
from app.stores.eviction import Evictor
from app.stores.features import FeatureKey, FeatureStore
from app.stores.library import StoredVideo, VideoLibrary
from app.stores.query_vectors import FoundQuery
from observability.metrics import Metrics
from samplers.contract import FeaturesMissingError


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Validated at the door: known samplers, each once."""

    tenant: str
    video_id: str
    question: str
    sampler_ids: tuple[str, ...]
    budget: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class CompareParts:
    """The clients of the stages that answers pass through, up to the selection."""

    indexer: Indexer
    evictor: Evictor
    library: VideoLibrary
    features: FeatureStore
    encoder: EncoderClient
    inputs: SelectionInputsGatherer
    selector: FrameSelector
    """One of its own, whose breaker the answers do not share."""
    table: SamplerTable
    metrics: Metrics


@dataclass(frozen=True, slots=True, eq=False)
class _OpenedQuestion:
    """What is the same for every sampler of a comparison."""

    request: ComparisonRequest
    stored: StoredVideo
    encoder_id: str
    video: ComparedVideo
    found: QueryLookup
    gather: Callable[[QueryLookup], SelectionInputs]

    @property
    def key(self) -> FeatureKey:
        return self.stored.feature_key(self.encoder_id)


class SamplerComparer:
    """Used from one event loop; selections and measures run in threads and processes."""

    def __init__(self, parts: CompareParts) -> None:
        self._parts = parts

    @asynccontextmanager
    async def ready(self, request: ComparisonRequest) -> AsyncIterator[None]:
        """Waits until the video is ready; its derived data stay in the store until the block ends.

        Raises what `Indexer.until_ready` raises.
        """
        with self._parts.evictor.pinned(request.video_id):
            await self._parts.indexer.wait_until_ready(
                request.tenant, request.video_id, request.wait_s
            )
            yield

    async def compare(self, request: ComparisonRequest) -> ComparisonDocument:
        """Of a video that is ready. Without the question's vector, samplers that use it fail.

        Raises `VideoNotReadyError` where its data were lost meanwhile, and
        `EncoderUnavailableError` while nothing is known of the encoder.
        """
        opened = await self._open(request)
        try:
            # First, because it warms the cache from which every sampler's scores are made.
            similarity = await asyncio.to_thread(self._similarity, opened)
            compared = [await self._select(opened, one) for one in request.sampler_ids]
        except FeaturesMissingError as exc:
            raise VideoNotReadyError("The video's features were lost; ask again.") from exc
        return await asyncio.to_thread(_document, opened, similarity, compared)

    async def _open(self, request: ComparisonRequest) -> _OpenedQuestion:
        parts = self._parts
        stored = await asyncio.to_thread(parts.library.open, request.video_id)
        encoder = await parts.encoder.info()
        found = await parts.inputs.look_up_vector(request.question)
        video = ComparedVideo(
            video_id=request.video_id,
            timestamps_s=stored.table.timestamps_s,
            candidates=stored.table.candidates,
            scenes=stored.scenes,
            query_vector=found.vector.vector if isinstance(found, FoundQuery) else None,
            budget=request.budget,
        )
        # Gathered for each sampler: with a handle of its own, each pays for the scores it reads.
        gather = partial(
            parts.inputs.gather,
            video=stored,
            encoder=encoder,
            query=request.question,
            budget=request.budget,
        )
        return _OpenedQuestion(request, stored, encoder.encoder_id, video, found, gather)

    def _similarity(self, opened: _OpenedQuestion) -> SimilarityDocument | None:
        video = opened.video
        if video.query_vector is None:
            return None
        scores = self._parts.features.scores(opened.key, video.query_vector)
        return similarity_curve(video.timestamps_s[video.candidates], scores)

    async def _select(self, opened: _OpenedQuestion, sampler_id: str) -> ComparedSampler:
        """Raises `FeaturesMissingError` where the chosen frames have none."""
        failure: ComparisonFailureDocument | None = None
        lookup = self._parts.inputs.lookup_of(sampler_id, opened.found)
        request = opened.gather(lookup).request
        started = perf_counter()
        try:
            chosen = await self._parts.selector.select_or_raise(sampler_id, request)
        except SelectionFailedError as error:
            # Who was killed, or ended its process, took the clock along.
            select_s = perf_counter() - started if error.select_s is None else error.select_s
            chosen = CheckedSelection([], cost=error.cost, select_s=select_s)
            failure = ComparisonFailureDocument(kind=str(error.kind), message=error.message)
        note_model_cost(self._parts.metrics, chosen.cost)
        configured = self._parts.table.get(sampler_id)
        rows = opened.stored.rows(chosen.indices)
        return ComparedSampler(
            sampler_id=sampler_id,
            version=configured.version,
            options=configured.option_values,
            indices=chosen.indices,
            embeddings=await asyncio.to_thread(self._parts.features.rows, opened.key, rows),
            latency_s=chosen.select_s,
            scorer=scorer_document(chosen.cost),
            note=chosen.note,
            failure=failure,
        )


def _document(
    opened: _OpenedQuestion,
    similarity: SimilarityDocument | None,
    compared: list[ComparedSampler],
) -> ComparisonDocument:
    request, stored = opened.request, opened.stored
    table = stored.table
    return ComparisonDocument(
        video_id=request.video_id,
        question=request.question,
        budget=request.budget,
        encoder=opened.encoder_id,
        duration_s=table.duration_s,
        width=table.width,
        height=table.height,
        num_candidates=table.num_candidates,
        scenes=scene_documents(stored),
        similarity=similarity,
        samplers=[sampler_document(opened.video, one, compared[0]) for one in compared],
        warnings=list(opened.gather(opened.found).warnings),
    )
