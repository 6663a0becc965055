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


class ScorerUnavailableError(FeaturesMissingError):
    """A model-backed sampler got no usable answer from its model, or has no model to ask.

    Counted as a failure of kind `dependency`, as missing features are: nothing is wrong with the
    sampler.
    """


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
    """The seam for model-backed samplers: a vision-language model that is asked about candidates.

    Deterministic as far as the model is (temperature 0), bounded in time and in calls. Blocks.
    Shared by threads. Counts its own calls and tokens; a sampler need not.
    """

    def score(self, video: VideoHandle, query: str, rows: Sequence[int]) -> FloatArray:
        """float32 `[len(rows)]`, 0..1: p(yes) to "does this frame help to answer?", one call each.

        NaN where the model gave no usable answer; never all NaN. Raises `ScorerUnavailableError`.
        """
        ...

    def score_sets(
        self, video: VideoHandle, query: str, sets: Sequence[Sequence[int]]
    ) -> FloatArray:
        """float32 `[len(sets)]`, 0..1: p(yes) to "do these frames suffice?", one call each.

        Every set holds at least one row. NaN and errors as in `score`.
        """
        ...

    def rate_ranges(self, video: VideoHandle, query: str, rows: Sequence[int]) -> str:
        """The model's own text, in one call that shows all `rows`, numbered 1 to `len(rows)`.

        It is asked for JSON `{"first-last": 1..5, "single": 1..5}` over those numbers; what comes
        may be anything. Raises `ScorerUnavailableError`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerOptions:
    """Base of every sampler's `Options`: a frozen dataclass whose typed fields are declared once.

    Declare a field as `name: type = field(default=..., metadata={"doc": "what it does, unit"})` and
    refuse bad values in `__post_init__` by raising `InvalidOptionsError`.
    """

    @property
    def uses_scorer(self) -> bool:
        """True: with these options the sampler asks a model, so it gets a scorer, the longer
        deadline and a process that can be killed."""
        return False


@runtime_checkable
class Sampler(Protocol):
    """A frame sampler, built once as `Class(options, encoder=..., scorer=...)`.

    Immutable and shared by threads. The rules of `select` (checked by `samplers.testing` and at
    every call by the gateway): see `check_selection`; deterministic; `query=None` and `scenes=None`
    have a documented fallback; inputs are left untouched; no clock, environment, tokenizer,
    network or file.
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


@dataclass(frozen=True, slots=True)
class NotedSelection:
    """Frame indices as `Sampler.select` returns them, and why these, in a sentence for people."""

    indices: list[int]
    note: str | None = None


@runtime_checkable
class NotingSampler(Sampler, Protocol):
    """A sampler that also says why: what it routed to, what it saved, what it fell back to.

    The gateway calls `select_with_note` instead of `select` and puts the note into the answer's
    evidence. `select` returns the same indices.
    """

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection: ...


def noted_selection(
    sampler: Sampler,
    video: VideoHandle,
    query: str | None,
    budget: int,
    scenes: list[Scene] | None,
) -> NotedSelection:
    """What `sampler` selects, with its note where it makes one."""
    if isinstance(sampler, NotingSampler):
        return sampler.select_with_note(video, query, budget, scenes)
    return NotedSelection(sampler.select(video, query, budget, scenes))


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
