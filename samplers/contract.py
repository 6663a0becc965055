"""The one contract of Framegate: a sampler returns frame indices, never frames.

Everything a sampler author needs is in this file: the values that go in (`VideoHandle`, `Scene`),
what a sampler is (`Sampler`, `SamplerOptions`), the rules its result keeps (`check_selection`) and
the errors.
This module imports numpy and nothing else, so that it loads anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float32]
TimeArray: TypeAlias = npt.NDArray[np.float64]
IndexArray: TypeAlias = npt.NDArray[np.int64]


class SamplerError(Exception):
    """Base of what a sampler, or the check of its result, raises."""


class FeaturesMissingError(SamplerError):
    """No features of the video, or no vector of the question, in the encoder the sampler names."""


class ContractViolationError(SamplerError):
    """A sampler returned something that is not a valid selection."""


class InvalidOptionsError(SamplerError):
    """Options that the sampler's `Options` refuses."""


@dataclass(frozen=True, slots=True, order=True)
class Scene:
    """One shot: frames `start_frame <= i < end_frame` (half-open frame indices).

    A list of scenes is sorted, disjoint and covers `0..num_frames`.
    """

    start_frame: int
    end_frame: int


class VideoHandle(Protocol):
    """What a sampler may read of a video. Lazy, read-only, holds no pixels."""

    @property
    def video_id(self) -> str:
        """Hex sha256 of the video's bytes."""
        ...

    @property
    def num_frames(self) -> int:
        """T, the frames of the one video stream that is used."""
        ...

    @property
    def timestamps_s(self) -> TimeArray:
        """float64 `[T]`, seconds, strictly increasing, zero at the first shown frame."""
        ...

    @property
    def candidates(self) -> IndexArray:
        """int64 `[C]`, strictly increasing frame indices.

        Row `r` of the features belongs to frame `candidates[r]`.
        """
        ...

    def image_embeddings(self, encoder: str) -> FloatArray:
        """float32 `[C, D]`, L2-normalised, read-only. Raises `FeaturesMissingError`."""
        ...

    def query_embedding(self, encoder: str, query: str) -> FloatArray:
        """float32 `[D]`, L2-normalised, read-only. Raises `FeaturesMissingError`."""
        ...

    def scores(self, encoder: str, query: str) -> FloatArray:
        """float32 `[C]`, cosines of the candidates and the query. Raises `FeaturesMissingError`."""
        ...


class FrameScorer(Protocol):
    """The seam for model-backed samplers: scores candidate rows by calling a model."""

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        """float32 `[len(rows)]`, higher is more relevant. May block.

        Raises `FeaturesMissingError`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerOptions:
    """Base of every sampler's `Options`: a frozen dataclass whose typed fields are declared once.

    Declare a field as `name: type = field(default=..., metadata={"doc": "what it does, unit"})` and
    refuse bad values in `__post_init__` by raising `InvalidOptionsError`.
    """


@runtime_checkable
class Sampler(Protocol):
    """A frame sampler, built once as `Class(options, encoder=..., scorer=...)`.

    Immutable and shared by threads. The rules of `select` (checked by `samplers.testing` and at
    every call by the gateway): see `check_selection`; deterministic; `query=None` and `scenes=None`
    have a documented fallback; inputs are left untouched; no clock, environment, tokenizer or
    network.
    """

    id: ClassVar[str]
    version: ClassVar[str]
    fills_budget: ClassVar[bool]
    """True: exactly `min(budget, C)` indices. False: between 1 and that."""
    uses_query: ClassVar[bool]
    """True: the gateway fetches the query vector of `encoder` before it calls `select`."""

    @property
    def options(self) -> SamplerOptions: ...

    @property
    def encoder(self) -> str: ...

    def select(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> list[int]:
        """At most `budget` frame indices of `video`, strictly increasing, each a candidate."""
        ...


def check_selection(
    indices: object, video: VideoHandle, budget: int, *, fills_budget: bool
) -> list[int]:
    """Return `indices` when they keep the contract, else raise `ContractViolationError`.

    Rules: a list of Python ints (not bool, not numpy), strictly increasing (hence unique), each a
    member of `video.candidates`; exactly `min(budget, C)` of them, or 1 to that many when
    `fills_budget` is False. O(budget log C), because the gateway checks every call.
    """
    candidates = video.candidates
    if not isinstance(indices, list) or any(type(i) is not int for i in indices):
        raise ContractViolationError("a selection is a list of Python ints")
    if any(b <= a for a, b in pairwise(indices)):
        raise ContractViolationError("frame indices must be strictly increasing and unique")
    if indices and not _are_members(indices, candidates):
        raise ContractViolationError("every frame index must be a member of video.candidates")
    limit = min(max(budget, 0), len(candidates))
    lowest = limit if fills_budget else min(1, limit)
    if not lowest <= len(indices) <= limit:
        expected = f"{limit}" if fills_budget else f"{lowest} to {limit}"
        raise ContractViolationError(f"expected {expected} frames, got {len(indices)}")
    return indices


def _are_members(indices: list[int], candidates: IndexArray) -> bool:
    # The ends first: an int beyond 64 bits must be refused, not overflow.
    if len(candidates) == 0 or indices[0] < candidates[0] or indices[-1] > candidates[-1]:
        return False
    return bool((candidates[np.searchsorted(candidates, indices)] == indices).all())
