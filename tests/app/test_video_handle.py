from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.errors import VideoNotReadyError
from app.stores.features import FeatureKey, FeatureStore
from app.stores.layout import DataLayout
from app.stores.library import open_video_handle
from app.stores.video_handle import StoredVideoHandle
from samplers.contract import FeaturesMissingError, FloatArray
from tests.app.stored_video import ENCODER_ID, SHAPE, VIDEO_ID, store_video

QUERY = "where is the dog?"
NAMES = {"default": ENCODER_ID, "tiny": ENCODER_ID}


def query_vector() -> FloatArray:
    vector = np.random.default_rng(3).standard_normal(SHAPE.embedding_dim).astype(np.float32)
    unit: FloatArray = vector / np.linalg.norm(vector)
    return unit


@pytest.fixture
def handle(tmp_path: Path) -> StoredVideoHandle:
    library = store_video(tmp_path)
    return library.handle(library.open(VIDEO_ID), NAMES, {(ENCODER_ID, QUERY): query_vector()})


class CountingStore(FeatureStore):
    """Counts the products."""

    def __init__(self, layout: DataLayout) -> None:
        super().__init__(layout, 1 << 20)
        self.num_products = 0

    def scores(self, key: FeatureKey, query_vector: FloatArray) -> FloatArray:
        self.num_products += 1
        return super().scores(key, query_vector)


def test_a_handle_shows_the_stored_video(handle: StoredVideoHandle) -> None:
    assert handle.video_id == VIDEO_ID
    assert handle.num_frames == len(handle.timestamps_s) == 300
    assert handle.candidates.tolist() == list(range(0, 300, 3))
    assert handle.image_embeddings("default").shape == (100, SHAPE.embedding_dim)
    assert handle.scores("tiny", QUERY) == pytest.approx(
        handle.image_embeddings("tiny") @ handle.query_embedding("tiny", QUERY), abs=1e-6
    )


def test_nothing_can_be_written_through_a_handle(handle: StoredVideoHandle) -> None:
    for shown in (
        handle.timestamps_s,
        handle.candidates,
        handle.image_embeddings("default"),
        handle.query_embedding("default", QUERY),
        handle.scores("default", QUERY),
    ):
        assert not shown.flags.writeable


def test_what_is_not_stored_is_missing(handle: StoredVideoHandle) -> None:
    with pytest.raises(FeaturesMissingError, match="named siglip"):
        handle.image_embeddings("siglip")
    with pytest.raises(FeaturesMissingError, match="query"):
        handle.query_embedding("default", "another question")
    with pytest.raises(FeaturesMissingError, match="query"):
        handle.scores("default", "another question")


def test_scores_are_computed_once_whatever_the_encoder_is_called(
    handle: StoredVideoHandle,
) -> None:
    store = CountingStore(DataLayout(handle.spec.data_dir))
    shared = StoredVideoHandle(handle.spec, handle.timestamps_s, handle.candidates, store)
    barrier = threading.Barrier(8)

    def ask(number: int) -> FloatArray:
        barrier.wait()
        return shared.scores("default" if number % 2 else "tiny", QUERY)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert store.num_products == 1
    assert all(answer is answers[0] for answer in answers)


def test_another_process_opens_the_same_handle_from_its_spec(handle: StoredVideoHandle) -> None:
    opened = open_video_handle(pickle.loads(pickle.dumps(handle.spec)))
    assert opened.num_frames == handle.num_frames
    assert np.array_equal(opened.candidates, handle.candidates)
    assert np.array_equal(opened.timestamps_s, handle.timestamps_s)
    assert np.array_equal(opened.scores("default", QUERY), handle.scores("default", QUERY))


def test_a_spec_of_a_video_that_is_gone_opens_nothing(handle: StoredVideoHandle) -> None:
    with pytest.raises(FileNotFoundError):
        open_video_handle(replace(handle.spec, video_id="cd" * 32))


@pytest.mark.parametrize(
    "name", ["table.json", "timestamps.npy", "candidates.npy", "scenes-*.json"]
)
def test_damaged_data_are_removed_so_that_they_are_made_anew(tmp_path: Path, name: str) -> None:
    library = store_video(tmp_path)
    derived = DataLayout(tmp_path).derived(VIDEO_ID)
    [damaged] = derived.rglob(name)
    damaged.write_bytes(b"")

    with pytest.raises(VideoNotReadyError, match="damaged; ask again"):
        library.open(VIDEO_ID)
    assert not derived.exists()
    with pytest.raises(VideoNotReadyError, match="not there yet"):
        library.open(VIDEO_ID)
