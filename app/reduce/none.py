"""The null reducer: every token of every chosen frame is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from app.reduce.contract import ReducedTokens, ReducerOptions
from samplers.contract import FloatArray


class NoneReducer:
    """Keeps all N x P tokens, in frame order."""

    id: ClassVar[str] = "none"
    version: ClassVar[str] = "1"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(ReducerOptions):
        """None."""

    def __init__(self, options: NoneReducer.Options) -> None:
        self._options = options

    @property
    def options(self) -> ReducerOptions:
        return self._options

    def num_tokens(self, num_frames: int, tokens_per_picture: int) -> int:
        return num_frames * tokens_per_picture

    def tokens_per_frame(self, tokens_per_picture: int) -> float:
        return float(tokens_per_picture)

    def reduce(self, tokens: FloatArray) -> ReducedTokens:
        num_frames, per_frame, dim = tokens.shape
        frames = np.repeat(np.arange(num_frames), per_frame)
        return ReducedTokens(
            tokens=tokens.reshape(-1, dim),
            frame_spans=np.stack([frames, frames], axis=1),
            positions=np.tile(np.arange(per_frame), num_frames),
            num_tokens_before=num_frames * per_frame,
        )
