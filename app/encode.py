"""Stage 4: frame indices -> tokens `[N, P, D_v]` of the chosen frames."""

from __future__ import annotations

import asyncio
from typing import Protocol

from app.encoders.contract import EncoderClient
from app.stores.features import FeatureStore
from app.stores.library import StoredVideo
from samplers.contract import FloatArray


class FrameEncoder(Protocol):
    """The seam between profiles: tokens read from a store, or computed for the question."""

    async def encode(self, video: StoredVideo, indices: list[int]) -> FloatArray:
        """float32 `[N, P, D_v]` of these candidates, in their order.

        Raises `FeaturesMissingError` where the store lost them, `EncoderUnavailableError` where an
        encoder is needed and away.
        """
        ...


class StoredTokenEncoder:
    """The `demo` profile: tokens were stored when the video was indexed, no model runs."""

    def __init__(self, features: FeatureStore, encoder: EncoderClient) -> None:
        self._features = features
        self._encoder = encoder

    async def encode(self, video: StoredVideo, indices: list[int]) -> FloatArray:
        key = video.feature_key((await self._encoder.info()).encoder_id)
        return await asyncio.to_thread(self._features.tokens, key, video.rows(indices))
