"""The index stage's work on one video: stored pictures -> a row of features for each.

The encoder process may die at any moment: the rows that were written stay, and the work goes on
from the next one when the process is back. Every picture is counted once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from app.encoders.contract import EncoderClient, EncoderInfo, PictureFeatures
from app.errors import EncoderUnavailableError, IndexFailedError
from app.stores.features import FeatureKey, FeatureShape, FeatureStore
from app.stores.frames import FrameTable
from app.stores.layout import DataLayout
from observability.metrics import Metrics
from observability.names import EncoderWork

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EncodingLimits:
    batch_size: int
    """Pictures in one call: few, since questions wait for the call that runs."""
    patience_s: float
    """How long one call is tried again while the encoder is away."""


class PictureIndex:
    """Fills the feature store from the frame store. Calls for different videos may overlap."""

    def __init__(
        self,
        layout: DataLayout,
        encoder: EncoderClient,
        features: FeatureStore,
        metrics: Metrics,
        limits: EncodingLimits,
    ) -> None:
        self._layout = layout
        self._encoder = encoder
        self._features = features
        self._metrics = metrics
        self._limits = limits

    async def index(self, table: FrameTable, on_progress: Callable[[float], None]) -> None:
        """Encode the pictures that have no row yet and publish the rows.

        `on_progress` gets rising fractions 0..1. Raises IndexFailedError when the encoder stays
        away, InvalidFeaturesError, FeatureWriterBusyError, OSError.
        """
        # Once more when the encoder was replaced midway: rows of two spaces must never mix.
        while not await self._is_filled(table, on_progress):
            continue

    async def _is_filled(self, table: FrameTable, on_progress: Callable[[float], None]) -> bool:
        """False: the encoder was replaced by one of another embedding space."""
        info = await self._patiently(self._encoder.info)
        key = FeatureKey(table.video_id, table.fps, info.encoder_id)
        if await asyncio.to_thread(self._features.has, key):
            return True
        writer = await asyncio.to_thread(
            self._features.writer, key, table.num_candidates, _shape(info)
        )
        try:
            while writer.next_row < table.num_candidates:
                features = await self._encode_batch(writer.next_row, table)
                if (await self._patiently(self._encoder.info)).encoder_id != info.encoder_id:
                    return False
                await asyncio.to_thread(writer.append, features.embeddings, features.tokens)
                on_progress(writer.next_row / table.num_candidates)
            await asyncio.to_thread(writer.commit)
        finally:
            writer.close()
        return True

    async def _encode_batch(self, start: int, table: FrameTable) -> PictureFeatures:
        rows = range(start, min(start + self._limits.batch_size, table.num_candidates))
        folder = self._layout.frames(table.video_id, table.fps, table.decode_version)

        async def encode() -> PictureFeatures:
            return await self._encoder.encode_pictures(folder, rows)

        features = await self._patiently(encode)
        self._metrics.pictures_encoded(len(rows))
        self._metrics.encoder_worked(EncoderWork.INDEX, features.device_s)
        return features

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, made again while the encoder is away."""
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + self._limits.patience_s
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await call()
            except EncoderUnavailableError as exc:
                if clock() + pause_s > deadline_s:
                    raise IndexFailedError("The encoder process did not come back.") from exc
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)


def _shape(info: EncoderInfo) -> FeatureShape:
    return FeatureShape(info.embedding_dim, info.tokens_per_picture, info.token_dim)
