"""What a token reducer is: tokens of the chosen frames in; fewer, with their source frames, out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from samplers.contract import FloatArray


@dataclass(frozen=True, slots=True)
class ReducedTokens:
    """Stage 5's result: `N'` tokens and where each came from.

    `frame_spans[k]` are positions into the selection (first, last; inclusive) of the frames that
    token k was made of, `positions[k]` its place inside the frame (0..P-1).
    """

    tokens: npt.NDArray[np.float32]
    """`[N', D_v]`."""
    frame_spans: npt.NDArray[np.int64]
    """`[N', 2]`, inclusive positions into the chosen frames."""
    positions: npt.NDArray[np.int64]
    """`[N']`."""
    num_tokens_before: int
    """N x P."""


class InvalidReducerOptionsError(ValueError):
    """Options that the reducer's `Options` refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducerOptions:
    """Base of every reducer's `Options`: a frozen dataclass, its typed fields declared once."""


class Reducer(Protocol):
    """A token reducer: a pure, deterministic function of the tokens. Built once, shared by threads.

    Built as `Class(options: Class.Options)`; `app.reduce.registry` maps its id to the class.
    """

    id: ClassVar[str]
    version: ClassVar[str]

    @property
    def options(self) -> ReducerOptions: ...

    def num_tokens(self, num_frames: int, tokens_per_picture: int) -> int:
        """Exactly how many tokens `reduce` returns for N frames of P tokens."""
        ...

    def tokens_per_frame(self, tokens_per_picture: int) -> float:
        """What one more frame costs after the reduction, at most; the budget divides by it.

        `num_tokens(N, P) <= max(P, N * tokens_per_frame(P))` for every N.
        """
        ...

    def reduce(self, tokens: FloatArray) -> ReducedTokens:
        """float32 `[N, P, D_v]` in time order -> N' tokens, ordered by first frame, position."""
        ...
