"""What a sampler may read for one question: a handle on the video, and the query's vector."""

from __future__ import annotations

from dataclasses import dataclass

from app.encoders.contract import EncoderInfo
from app.errors import EncoderUnavailableError
from app.sampler_table import SamplerTable
from app.select_frames import SelectionRequest
from app.stores.library import DEFAULT_ENCODER, StoredVideo, VideoLibrary
from app.stores.query_vectors import QueryVectors
from samplers.contract import FloatArray


@dataclass(frozen=True, slots=True)
class SelectionInputs:
    """The request for the sampler, and what gathering it cost."""

    request: SelectionRequest
    is_query_vector_hit: bool | None
    """None: the sampler does not use the query, or the encoder process was away."""
    encoder_device_s: float
    warnings: tuple[str, ...]


class SelectionInputsGatherer:
    """Fetches the query vector only for samplers that use the query."""

    def __init__(
        self, table: SamplerTable, library: VideoLibrary, query_vectors: QueryVectors
    ) -> None:
        self._table = table
        self._library = library
        self._query_vectors = query_vectors

    async def gather(
        self, sampler_id: str, video: StoredVideo, encoder: EncoderInfo, query: str, budget: int
    ) -> SelectionInputs:
        """Never raises for an encoder process that is away: the sampler then lacks its vector."""
        vectors: dict[tuple[str, str], FloatArray] = {}
        is_hit: bool | None = None
        device_s = 0.0
        warnings: tuple[str, ...] = ()
        if self._uses_query(sampler_id):
            try:
                looked_up = await self._query_vectors.get(query)
            except EncoderUnavailableError as exc:
                warnings = (f"The question has no query vector: {exc.detail}",)
            else:
                vectors[encoder.encoder_id, query] = looked_up.vector.vector
                is_hit = looked_up.is_hit
                device_s = 0.0 if looked_up.is_hit else looked_up.vector.device_s
                if looked_up.vector.is_truncated:
                    warnings = ("The encoder's text side cut the question off.",)
        names = {DEFAULT_ENCODER: encoder.encoder_id, encoder.name: encoder.encoder_id}
        handle = self._library.handle(video, names, vectors)
        request = SelectionRequest(handle, query, budget, video.scenes)
        return SelectionInputs(request, is_hit, device_s, warnings)

    def _uses_query(self, sampler_id: str) -> bool:
        return sampler_id in self._table.ids and self._table.entry(sampler_id).uses_query
