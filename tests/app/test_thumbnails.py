"""app/stores/thumbnails.py."""

from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from app.stores.frames import PICTURES, find_frames
from app.stores.layout import DataLayout
from app.stores.thumbnails import THUMBNAIL_SIDE_PX, StoredThumbnails
from tests.app.pictures import noise_picture, write_pack
from tests.app.stored_video import DECODE_VERSION, VIDEO_ID, store_video


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    """A video whose first four candidates, frames 0, 3, 6 and 9, have pictures of 400 x 300."""
    store_video(tmp_path / "data")
    made = DataLayout(tmp_path / "data")
    folder = find_frames(made, VIDEO_ID, DECODE_VERSION)
    assert folder is not None
    write_pack(tmp_path / "pack", [noise_picture(seed, 300, 400) for seed in range(4)])
    for file in (tmp_path / "pack").iterdir():
        shutil.move(file, folder / file.name)
    return made


def test_a_candidates_picture_is_made_small(layout: DataLayout) -> None:
    jpeg = StoredThumbnails(layout, DECODE_VERSION).thumbnail(VIDEO_ID, 6)
    assert jpeg is not None
    assert len(jpeg) < 20_000
    pixels = cv2.imdecode(np.frombuffer(jpeg, dtype=np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    assert pixels.shape == (144, THUMBNAIL_SIDE_PX, 3)


def test_colours_stay_in_their_order(layout: DataLayout) -> None:
    jpeg = StoredThumbnails(layout, DECODE_VERSION).thumbnail(VIDEO_ID, 0)
    assert jpeg is not None
    pixels = cv2.imdecode(np.frombuffer(jpeg, dtype=np.uint8), cv2.IMREAD_COLOR_RGB)
    assert pixels is not None
    expected = noise_picture(0, 300, 400).mean(axis=(0, 1))
    assert np.abs(pixels.mean(axis=(0, 1)) - expected).max() < 4


def test_other_frames_and_other_videos_have_none(layout: DataLayout) -> None:
    thumbnails = StoredThumbnails(layout, DECODE_VERSION)
    assert thumbnails.thumbnail(VIDEO_ID, 7) is None
    assert thumbnails.thumbnail("cd" * 32, 6) is None
    assert StoredThumbnails(layout, "d2-other").thumbnail(VIDEO_ID, 6) is None


def test_a_damaged_picture_is_none(layout: DataLayout) -> None:
    folder = find_frames(layout, VIDEO_ID, DECODE_VERSION)
    assert folder is not None
    pack = folder / PICTURES
    pack.write_bytes(bytes(pack.stat().st_size))
    assert StoredThumbnails(layout, DECODE_VERSION).thumbnail(VIDEO_ID, 6) is None
