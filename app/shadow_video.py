"""Opens a stored video in the shadow's process. Imported there; the gateway only names it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from app.scorer.frame_scorer import OpenAIFrameScorer, ScoredSelection, open_frame_scorer
from app.scorer.spec import SCORER_SHARE, ScoreNamespace, ScorerSpec
from app.stores.features import FeatureKey, FeatureStore
from app.stores.frames import FrameTable, read_frame_table, read_scenes
from app.stores.layout import DataLayout
from app.stores.library import DEFAULT_ENCODER, WORKER_CACHE_BYTES
from app.stores.video_handle import StoredVideoHandle, VideoHandleSpec
from observability.shadow_names import ShadowSide
from samplers.contract import FeaturesMissingError, FloatArray
from shadow.order import OpenedVideo


@dataclass(frozen=True, slots=True)
class ShadowModel:
    """The scoring model, as the shadow may ask it."""

    spec: ScorerSpec
    deadline_s: float
    """Of one selection that asks it."""


def open_compared_video(
    spec: VideoHandleSpec, query: str, model: ShadowModel | None = None
) -> OpenedVideo:
    """Everything is measured in the deployment's encoder. Raises FileNotFoundError."""
    layout, features = _stores(spec.data_dir)
    table = read_frame_table(layout.frames(spec.video_id, spec.fps, spec.decode_version))
    encoder_id = spec.encoder_ids[DEFAULT_ENCODER]
    key = FeatureKey(spec.video_id, spec.fps, encoder_id)
    with suppress(FeaturesMissingError):
        # As in the gateway, whose cache is warm: or else the first of both would pay for the other.
        if features.fits_cache(key):
            features.embeddings(key)
    return OpenedVideo(
        scenes=read_scenes(layout.scenes(spec.video_id, table.detector_version)),
        fresh_handle=partial(_handle, spec, table, features),
        handle_without_query=partial(_handle, replace(spec, query_vectors={}), table, features),
        embeddings=partial(_embeddings, features, key, table),
        query_vector=spec.query_vectors.get((encoder_id, query)),
        scorer=None if model is None else partial(_scorer, model, spec),
    )


def _handle(spec: VideoHandleSpec, table: FrameTable, features: FeatureStore) -> StoredVideoHandle:
    return StoredVideoHandle(spec, table.timestamps_s, table.candidates, features)


def _scorer(model: ShadowModel, video: VideoHandleSpec, side: ShadowSide) -> OpenAIFrameScorer:
    is_control = side is ShadowSide.CONTROL
    namespace = ScoreNamespace.SHADOW_CONTROL if is_control else ScoreNamespace.SHADOW
    selection = ScoredSelection(video, namespace, SCORER_SHARE * model.deadline_s)
    return open_frame_scorer(model.spec, selection)


def _embeddings(
    features: FeatureStore, key: FeatureKey, table: FrameTable, indices: Sequence[int]
) -> FloatArray:
    return features.rows(key, table.candidates.searchsorted(indices).tolist())


@lru_cache(maxsize=1)
def _stores(data_dir: Path) -> tuple[DataLayout, FeatureStore]:
    layout = DataLayout(data_dir)
    return layout, FeatureStore(layout, WORKER_CACHE_BYTES)
