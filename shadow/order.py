"""What crosses between the gateway and the shadow's process: an order, and the work's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from observability.shadow_names import ShadowSide
from samplers.contract import FloatArray, FrameScorer, Scene, VideoHandle


class CountingScorer(FrameScorer, Protocol):
    """A scorer for one selection, which tells what it asked of its model."""

    @property
    def num_calls(self) -> int: ...

    @property
    def num_tokens(self) -> int:
        """Read and written by the model."""
        ...


@dataclass(frozen=True, slots=True)
class OpenedVideo:
    """A stored video in the shadow's process."""

    scenes: list[Scene]
    fresh_handle: Callable[[], VideoHandle]
    """A handle that has computed nothing yet: one for each side, so that neither finds scores."""
    handle_without_query: Callable[[], VideoHandle]
    """Such a handle without the question's vector: an answer has none for a sampler that does not
    say it uses the query."""
    embeddings: Callable[[Sequence[int]], FloatArray]
    """float32 `[N, D]`, L2-normalised, of these frame indices, in the one encoder that everything
    is measured in. Raises `FeaturesMissingError`."""
    query_vector: FloatArray | None
    """The question's, in that encoder; None where it could not be had."""
    scorer: Callable[[ShadowSide], CountingScorer] | None = None
    """A scorer for the selection of one side, which finds no scores of the other; None: no model.
    Raises `ScorerUnavailableError`."""


OpenVideo: TypeAlias = Callable[[], OpenedVideo]
"""Picklable. Raises FileNotFoundError where the video is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerSpec:
    """A sampler as another process builds it."""

    sampler_id: str
    """As flags name it."""
    base_id: str
    """As the registry names it; another where `sampler_id` is that sampler with other options."""
    version: str
    options: tuple[tuple[str, object], ...]
    encoder: str
    uses_scorer: bool = False
    """With these options it asks a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSelection:
    """What the control did for the answer; `indices` are empty where it failed."""

    indices: tuple[int, ...]
    failure_kind: str | None = None
    failure_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """One comparison to carry out."""

    open_video: OpenVideo
    query: str
    budget: int
    control: SamplerSpec
    selected: ControlSelection
    shadow: SamplerSpec
    is_control_first: bool
    tolerance_s: float

    def sampler(self, side: ShadowSide) -> SamplerSpec:
        return self.control if side is ShadowSide.CONTROL else self.shadow


@dataclass(frozen=True, slots=True, kw_only=True)
class SideResult:
    """What one sampler chose; `SideRecord` explains the fields."""

    indices: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    latency_s: float = 0.0
    failure_kind: str | None = None
    failure_message: str | None = None
    relevance: float | None = None
    redundancy: float | None = None
    scene_coverage: float | None = None
    model_calls: int = 0
    model_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """`ComparisonRecord` explains the fields."""

    overlap_exact: float
    overlap_within: float
    temporal_distance_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResult:
    """How far an order has come: sent after each step, so that a killed process leaves the rest."""

    running: ShadowSide | None = None
    """Whose sampler is being called now; None: finished."""
    is_video_gone: bool = False
    control: SideResult | None = None
    shadow: SideResult | None = None
    differences: Differences | None = None
    """None where a side failed."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first message to a new process: what it imports before the first order."""

    outside_targets: tuple[str, ...]
