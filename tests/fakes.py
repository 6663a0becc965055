"""Stand-ins for tests of something else. None of them is ever a feature's only proof."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import numpy as np

from app.encoders.contract import EncoderInfo, PictureFeatures, QueryVector
from app.errors import EncoderUnavailableError
from app.stores.frames import PicturePack


class FakeEncoderClient:
    """An encoder without weights: a picture's features are drawn from the hash of its bytes.

    `failures` maps a row to how many calls that hold it find the process away; `gate` holds every
    call back until it is set.
    """

    def __init__(self, failures: dict[int, int] | None = None) -> None:
        self.encoder_id = "fake@00000001"
        self.rows: list[int] = []
        """Rows of all calls that succeeded, in order."""
        self.gate = asyncio.Event()
        self.gate.set()
        self._failures = dict(failures or {})

    async def info(self) -> EncoderInfo:
        return EncoderInfo("fake", self.encoder_id, 8, 2, 4, None)

    async def encode_pictures(self, pictures: Path, rows: range) -> PictureFeatures:
        await self.gate.wait()
        for row in rows:
            if self._failures.get(row, 0) > 0:
                self._failures[row] -= 1
                raise EncoderUnavailableError
        pack = PicturePack(pictures)
        drawn = [np.random.default_rng(_seed(pack.jpeg(row))) for row in rows]
        embeddings = np.stack([rng.standard_normal(8) for rng in drawn])
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
        tokens = np.stack([rng.random((2, 4)) for rng in drawn])
        self.rows += rows
        return PictureFeatures(embeddings.astype(np.float16), tokens.astype(np.float16), 0.001)

    async def encode_query(self, text: str) -> QueryVector:
        vector = np.random.default_rng(_seed(text.encode())).standard_normal(8)
        return QueryVector((vector / np.linalg.norm(vector)).astype(np.float32), False, 0.001)


def _seed(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
