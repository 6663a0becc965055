"""What a sampler may read for one question: a handle on the video, and the query's vector."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.encoders.contract import EncoderInfo
from app.errors import EncoderUnavailableError
from app.sampler_table import SamplerTable
from app.select_frames import SelectionRequest
from app.stores.library import DEFAULT_ENCODER, StoredVideo, VideoLibrary
from app.stores.query_vectors import FoundQuery, QueryVectors
from samplers.contract import FloatArray


@dataclass(frozen=True, slots=True)
class SelectionInputs:
    """The request for the sampler, and what gathering it cost."""

    request: SelectionRequest
    is_query_vector_hit: bool | None
    """None: the sampler does not use the query, or the encoder process was away."""
    encoder_device_s: float
    warnings: tuple[str, ...]


QueryLookup = FoundQuery | EncoderUnavailableError | None
"""None: the sampler does not use the query."""


class SelectionInputsGatherer:
    """Fetches the query vector only for samplers that use the query."""

    def __init__(
        self, table: SamplerTable, library: VideoLibrary, query_vectors: QueryVectors
    ) -> None:
        self._table = table
        self._library = library
        self.query_vectors = query_vectors

    @asynccontextmanager
    async def looking_up(
        self, sampler_id: str, query: str
    ) -> AsyncIterator[Awaitable[QueryLookup]]:
        """The encoder process works on the query vector while the block goes on."""
        lookup = asyncio.create_task(self._look_up(sampler_id, query))
        try:
            yield lookup
        finally:
            lookup.cancel()

    async def _look_up(self, sampler_id: str, query: str) -> QueryLookup:
        if not self._uses_query(sampler_id):
            return None
        return await self.look_up_vector(query)

    def lookup_of(self, sampler_id: str, lookup: QueryLookup) -> QueryLookup:
        """What this sampler would have of `lookup` in an answer."""
        return lookup if self._uses_query(sampler_id) else None

    async def look_up_vector(self, query: str) -> FoundQuery | EncoderUnavailableError:
        """The query's vector, for whichever sampler."""
        try:
            return await self.query_vectors.get(query)
        except EncoderUnavailableError as exc:
            return exc

    def gather(
        self, lookup: QueryLookup, video: StoredVideo, encoder: EncoderInfo, query: str, budget: int
    ) -> SelectionInputs:
        """Where the encoder process is away, the sampler lacks its vector and a warning says so."""
        vectors: dict[tuple[str, str], FloatArray] = {}
        is_hit: bool | None = None
        device_s = 0.0
        warnings: tuple[str, ...] = ()
        if isinstance(lookup, EncoderUnavailableError):
            warnings = (f"The question has no query vector: {lookup.detail}",)
        elif lookup is not None:
            vectors[encoder.encoder_id, query] = lookup.vector.vector
            is_hit = lookup.is_hit
            device_s = 0.0 if lookup.is_hit else lookup.vector.device_s
            if lookup.vector.is_truncated:
                warnings = ("The encoder's text side cut the question off.",)
        names = {DEFAULT_ENCODER: encoder.encoder_id, encoder.name: encoder.encoder_id}
        handle = self._library.handle(video, names, vectors)
        request = SelectionRequest(handle, query, budget, video.scenes)
        return SelectionInputs(request, is_hit, device_s, warnings)

    def _uses_query(self, sampler_id: str) -> bool:
        return sampler_id in self._table.ids and self._table.entry(sampler_id).uses_query
