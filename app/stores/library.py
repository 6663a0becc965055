"""Opens a ready video: its frame table and shots, and handles for samplers, in any process."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from app.errors import VideoNotReadyError
from app.stores.features import FeatureKey, FeatureStore
from app.stores.frames import FrameTable, find_frames, read_frame_table, read_scenes
from app.stores.layout import DataLayout
from app.stores.removal import discard
from app.stores.video_handle import StoredVideoHandle, VideoHandleSpec
from observability.logs import log_event
from observability.names import Event
from samplers.contract import FloatArray, Scene

logger = logging.getLogger(__name__)

DEFAULT_ENCODER = "default"
WORKER_CACHE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class StoredVideo:
    """One ready video, as one question sees it."""

    table: FrameTable
    scenes: list[Scene]
    was_stored: bool = True
    """False: the question waited until its derived data were there."""

    @property
    def video_id(self) -> str:
        return self.table.video_id

    def seconds(self, indices: list[int]) -> list[float]:
        """Presentation times of these frames."""
        return [float(self.table.timestamps_s[i]) for i in indices]

    def rows(self, indices: list[int]) -> list[int]:
        """Candidate rows of these frames; each must be a candidate."""
        return [int(row) for row in self.table.candidates.searchsorted(indices)]

    def feature_key(self, encoder_id: str) -> FeatureKey:
        return FeatureKey(self.table.video_id, self.table.fps, encoder_id)


class VideoLibrary:
    """Reads what decode and index have stored."""

    def __init__(self, layout: DataLayout, features: FeatureStore, decode_version: str) -> None:
        self._layout = layout
        self._features = features
        self._decode_version = decode_version

    def open(self, video_id: str) -> StoredVideo:
        """Raises `VideoNotReadyError` when the derived data are not there. Blocks on disk.

        Data that cannot be read are removed, so that the next question indexes the video again.
        """
        try:
            folder = find_frames(self._layout, video_id, self._decode_version)
            if folder is None:
                raise VideoNotReadyError("The video's derived data are not there yet.")
            table = read_frame_table(folder)
            scenes = read_scenes(self._layout.scenes(video_id, table.detector_version))
        except FileNotFoundError as exc:
            raise VideoNotReadyError("The video's derived data were evicted just now.") from exc
        except (OSError, EOFError, ValueError, TypeError) as exc:
            self._remove_damaged(video_id, exc)
            raise VideoNotReadyError(
                "The video's derived data were damaged; ask again, and they are made anew."
            ) from exc
        return StoredVideo(table, scenes)

    def _remove_damaged(self, video_id: str, damage: Exception) -> None:
        log_event(
            logger,
            Event.DERIVED_DATA_DAMAGED,
            level=logging.ERROR,
            video_id=video_id,
            error=f"{type(damage).__name__}: {damage}",
        )
        self._features.forget(video_id)
        discard(self._layout.derived(video_id), self._layout)

    def handle(
        self,
        video: StoredVideo,
        encoder_ids: Mapping[str, str],
        query_vectors: Mapping[tuple[str, str], FloatArray],
    ) -> StoredVideoHandle:
        """A sampler's view of the video for one question."""
        spec = VideoHandleSpec(
            video_id=video.video_id,
            fps=video.table.fps,
            data_dir=self._layout.root,
            decode_version=self._decode_version,
            encoder_ids=dict(encoder_ids),
            query_vectors=dict(query_vectors),
        )
        return StoredVideoHandle(
            spec, video.table.timestamps_s, video.table.candidates, self._features
        )


@lru_cache(maxsize=1)
def _worker_features(data_dir: Path) -> FeatureStore:
    return FeatureStore(DataLayout(data_dir), WORKER_CACHE_BYTES)


def open_video_handle(spec: VideoHandleSpec) -> StoredVideoHandle:
    """The same handle in another process. Raises FileNotFoundError when the video is gone."""
    layout = DataLayout(spec.data_dir)
    table = read_frame_table(layout.frames(spec.video_id, spec.fps, spec.decode_version))
    features = _worker_features(spec.data_dir)
    return StoredVideoHandle(spec, table.timestamps_s, table.candidates, features)
