"""A small ready video in a data folder: frame table, shots and features, without decoding."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.stores.features import FeatureKey, FeatureShape, FeatureStore
from app.stores.frames import FrameTable, publish, write_frame_table, write_scenes
from app.stores.layout import DataLayout
from app.stores.library import VideoLibrary
from samplers.contract import Scene

DECODE_VERSION = "d1-test"
DETECTOR_VERSION = "content1-test"
ENCODER_ID = "tiny@00000000"
VIDEO_ID = "ab" * 32
SHAPE = FeatureShape(embedding_dim=16, tokens_per_picture=2, token_dim=5)


def store_video(data_dir: Path, *, num_frames: int = 300, stride: int = 3) -> VideoLibrary:
    """Publish a video whose candidates are every `stride`-th frame; the library that opens it."""
    layout = DataLayout(data_dir)
    layout.create()
    table = FrameTable(
        video_id=VIDEO_ID,
        fps=8.0,
        decode_version=DECODE_VERSION,
        detector_version=DETECTOR_VERSION,
        timestamps_s=np.arange(num_frames, dtype=np.float64) / 25,
        candidates=np.arange(0, num_frames, stride, dtype=np.int64),
        width=64,
        height=48,
        start_s=0.0,
        duration_s=num_frames / 25,
        stream_index=0,
        rotation=0,
        is_hdr=False,
        container="mp4",
        codec="h264",
        num_damaged_packets=0,
        num_repaired_timestamps=0,
    )
    made = layout.temporary / "made"
    made.mkdir()
    write_frame_table(made, table)
    publish(made, layout.frames(VIDEO_ID, table.fps, DECODE_VERSION))
    half = num_frames // 2
    scenes = [Scene(0, half), Scene(half, num_frames)]
    write_scenes(layout.temporary / "scenes", scenes)
    publish(layout.temporary / "scenes", layout.scenes(VIDEO_ID, DETECTOR_VERSION))
    features = FeatureStore(layout, 1 << 20)
    _store_features(features, table.num_candidates)
    return VideoLibrary(layout, features, DECODE_VERSION)


def _store_features(features: FeatureStore, num_rows: int) -> None:
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((num_rows, SHAPE.embedding_dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    tokens = rng.random((num_rows, SHAPE.tokens_per_picture, SHAPE.token_dim))
    with features.writer(FeatureKey(VIDEO_ID, 8.0, ENCODER_ID), num_rows, SHAPE) as writer:
        writer.append(rows.astype(np.float16), tokens.astype(np.float16))
        writer.commit()
