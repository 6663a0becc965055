"""Videos without a store, opened the way that the shadow's process opens them; and its orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from samplers.contract import FloatArray
from samplers.testing import InMemoryVideo, make_video
from shadow.order import ControlSelection, OpenedVideo, SamplerSpec, WorkOrder

QUERY = "what happens?"
BUDGET = 8


def open_made_video(num_candidates: int, *, has_features: bool = True) -> OpenedVideo:
    video = make_video(num_candidates, has_features=has_features)
    return OpenedVideo(
        scenes=video.scenes(4),
        fresh_handle=lambda: video,
        handle_without_query=video.without_query,
        embeddings=partial(rows_of, video),
        query_vector=video.query_embedding("any", QUERY) if has_features else None,
    )


def rows_of(video: InMemoryVideo, indices: Sequence[int]) -> FloatArray:
    rows: FloatArray = video.image_embeddings("any")[np.searchsorted(video.candidates, indices)]
    return rows


def open_nothing() -> OpenedVideo:
    raise FileNotFoundError("evicted")


def spec(sampler_id: str) -> SamplerSpec:
    return SamplerSpec(
        sampler_id=sampler_id, base_id=sampler_id, version="1", options=(), encoder="default"
    )


def served(indices: Sequence[int] | None = None, num_candidates: int = 60) -> ControlSelection:
    """What the control chose for the answer: the middle frames, unless told."""
    candidates = make_video(num_candidates).candidates.tolist()
    return ControlSelection(indices=tuple(indices or candidates[20 : 20 + BUDGET]))


def order(shadow_id: str, control_id: str = "uniform", **changes: object) -> WorkOrder:
    made = WorkOrder(
        open_video=partial(open_made_video, 60),
        query=QUERY,
        budget=BUDGET,
        control=spec(control_id),
        selected=served(),
        shadow=spec(shadow_id),
        is_control_first=True,
        tolerance_s=1.0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # the tests say which
