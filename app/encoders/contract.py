"""What an encoder is: one embedding space for pictures and texts, plus the picture's tokens.

The `demo` profile's ConSE encoder and open_clip encoders share this interface. An encoder runs in
the encoder process only (`app/encoders/server.py`); the gateway talks to it by `EncoderClient`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Picture: TypeAlias = npt.NDArray[np.uint8]
"""uint8 `[H, W, 3]`, RGB, upright, square pixels."""


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """What the gateway needs to know of the encoder; the same in every process.

    `name` is what samplers and settings say; `encoder_id` is the exact embedding space.
    """

    name: str
    encoder_id: str
    embedding_dim: int
    """D."""
    tokens_per_picture: int
    """P."""
    token_dim: int
    """D_v."""
    token_labels: tuple[str, ...] | None
    """Words of the D_v token entries where tokens are label distributions, else None."""


@dataclass(frozen=True, slots=True)
class PictureFeatures:
    """Features of B pictures."""

    embeddings: npt.NDArray[np.float16]
    """`[B, D]`, L2-normalised, finite."""
    tokens: npt.NDArray[np.float16]
    """`[B, P, D_v]`."""
    device_s: float
    """Seconds of encoder time."""


@dataclass(frozen=True, slots=True)
class QueryVector:
    vector: npt.NDArray[np.float32]
    """`[D]`, L2-normalised, read-only."""
    is_truncated: bool
    """The text tower cut the query off."""
    device_s: float


class Encoder(Protocol):
    """Inside the encoder process. Called by one thread at a time."""

    @property
    def info(self) -> EncoderInfo: ...

    def encode_pictures(self, pictures: Sequence[Picture]) -> PictureFeatures:
        """Pooled embeddings and tokens of B pictures of any sizes, black ones too."""
        ...

    def encode_query(self, text: str) -> QueryVector: ...


class EncoderClient(Protocol):
    """The gateway's side. Every call raises `EncoderUnavailableError` when the process is away."""

    async def info(self) -> EncoderInfo:
        """May be what the process said once."""
        ...

    async def ask_info(self) -> EncoderInfo:
        """What the process says now: a health check."""
        ...

    async def encode_pictures(self, pictures: Path, rows: range) -> PictureFeatures:
        """Features of rows of the stored picture pack in folder `pictures` (a store handle)."""
        ...

    async def encode_query(self, text: str) -> QueryVector: ...

    async def aclose(self) -> None: ...
