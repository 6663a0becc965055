"""The stored video as samplers see it: made from ids and a store address alone, in any process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.stores.features import FeatureKey, FeatureStore
from samplers.contract import FeaturesMissingError, FloatArray, IndexArray, TimeArray


@dataclass(frozen=True, slots=True, eq=False)
class VideoHandleSpec:
    """Everything a handle is made of; small and picklable, so that it crosses processes."""

    video_id: str
    fps: float
    data_dir: Path
    """The store address: root of the `DataLayout`."""
    decode_version: str
    encoder_ids: Mapping[str, str]
    """Encoder name, as samplers say it (`default` too), to the embedding space of this video."""
    query_vectors: Mapping[tuple[str, str], FloatArray]
    """(encoder_id, query) to the query's vector: fetched before selection, never by it."""


class StoredVideoHandle:
    """A `samplers.contract.VideoHandle` over the frame table and the feature store.

    Scores are computed once per (encoder, query) and shared by everyone who holds the handle: keep
    one handle per question. Shared by threads.
    """

    def __init__(
        self,
        spec: VideoHandleSpec,
        timestamps_s: TimeArray,
        candidates: IndexArray,
        features: FeatureStore,
    ) -> None:
        self._spec = spec
        self._timestamps_s = timestamps_s.view()
        self._timestamps_s.flags.writeable = False
        self._candidates = candidates.view()
        self._candidates.flags.writeable = False
        self._features = features
        self._scores: dict[tuple[str, str], FloatArray] = {}
        self._lock = threading.Lock()

    @property
    def spec(self) -> VideoHandleSpec:
        """What another process needs to open the same handle."""
        return self._spec

    @property
    def video_id(self) -> str:
        return self._spec.video_id

    @property
    def num_frames(self) -> int:
        return len(self._timestamps_s)

    @property
    def timestamps_s(self) -> TimeArray:
        return self._timestamps_s

    @property
    def candidates(self) -> IndexArray:
        return self._candidates

    def image_embeddings(self, encoder: str) -> FloatArray:
        return self._features.embeddings(self._key(encoder))

    def query_embedding(self, encoder: str, query: str) -> FloatArray:
        encoder_id = self._key(encoder).encoder_id
        vector = self._spec.query_vectors.get((encoder_id, query))
        if vector is None:
            raise FeaturesMissingError(f"no vector of this query in {encoder_id}")
        read_only = vector.view()
        read_only.flags.writeable = False
        return read_only

    def scores(self, encoder: str, query: str) -> FloatArray:
        key = self._key(encoder)
        # Held while computing: the second asker waits for the product instead of repeating it.
        with self._lock:
            scores = self._scores.get((key.encoder_id, query))
            if scores is None:
                scores = self._features.scores(key, self.query_embedding(encoder, query))
                self._scores[key.encoder_id, query] = scores
            return scores

    def _key(self, encoder: str) -> FeatureKey:
        encoder_id = self._spec.encoder_ids.get(encoder)
        if encoder_id is None:
            raise FeaturesMissingError(f"this video has no features in an encoder named {encoder}")
        return FeatureKey(self._spec.video_id, self._spec.fps, encoder_id)
