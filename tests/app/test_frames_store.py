"""The frame store: what is visible is whole, and reads back as it was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from app.stores.frames import (
    FrameTable,
    PackWriter,
    PicturePack,
    find_frames,
    publish,
    read_frame_table,
    read_scenes,
    write_frame_table,
    write_scenes,
)
from app.stores.layout import DataLayout
from samplers.contract import Scene
from tests.app.clips import plain

VIDEO_ID = "ab" * 32


def make_table(num_frames: int = 50) -> FrameTable:
    return FrameTable(
        video_id=VIDEO_ID,
        fps=8.0,
        decode_version="d1-0",
        detector_version="content1-0",
        timestamps_s=np.arange(num_frames) / 25,
        candidates=np.arange(0, num_frames, 3, dtype=np.int64),
        width=320,
        height=180,
        start_s=1.5,
        duration_s=num_frames / 25,
        stream_index=0,
        rotation=90,
        is_hdr=False,
        container="mov",
        codec="h264",
        num_damaged_packets=1,
        num_repaired_timestamps=2,
    )


def write_pack(folder: Path, pictures: list[bytes]) -> None:
    with PackWriter(folder) as pack:
        for picture in pictures:
            pack.append(picture)
        pack.finish()


def test_a_frame_table_reads_back_as_written_and_read_only(tmp_path: Path) -> None:
    table = make_table()
    write_frame_table(tmp_path, table)
    read = read_frame_table(tmp_path)
    assert read.timestamps_s.tolist() == table.timestamps_s.tolist()
    assert read.candidates.tolist() == table.candidates.tolist()
    assert (read.video_id, read.fps, read.rotation, read.start_s) == (VIDEO_ID, 8.0, 90, 1.5)
    with pytest.raises(ValueError, match="read-only"):
        read.timestamps_s[0] = 1.0


def test_the_row_of_a_frame_is_found_only_for_candidates() -> None:
    table = make_table()
    assert table.candidate_row(6) == 2
    assert table.candidate_row(7) is None
    assert table.candidate_row(10**6) is None
    assert table.candidate_row(-1) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pictures=st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=30), data=st.data()
)
def test_a_pack_gives_back_every_kept_picture(
    tmp_path_factory: pytest.TempPathFactory, pictures: list[bytes], data: st.DataObject
) -> None:
    kept = [row for row in range(len(pictures)) if data.draw(st.booleans())] or [0]
    folder = tmp_path_factory.mktemp("pack")
    with PackWriter(folder) as writer:
        for picture in pictures:
            writer.append(picture)
        writer.keep(kept)
        writer.append(b"one more")
        writer.finish()
    pack = PicturePack(folder)
    expected = [*(pictures[row] for row in kept), b"one more"]
    assert [pack.jpeg(row) for row in range(pack.num_pictures)] == expected
    assert (folder / "pictures.pack").stat().st_size == sum(map(len, expected))


def test_a_row_outside_the_pack_is_refused(tmp_path: Path) -> None:
    write_pack(tmp_path, [b"a", b"b"])
    pack = PicturePack(tmp_path)
    for row in (-1, 2):
        with pytest.raises(IndexError, match="outside"):
            pack.jpeg(row)


def test_a_picture_decodes_to_rgb(tmp_path: Path) -> None:
    Image.fromarray(plain((250, 20, 10), 32, 16)).save(tmp_path / "red.jpg", quality=95)
    write_pack(tmp_path, [(tmp_path / "red.jpg").read_bytes()])
    pixels = PicturePack(tmp_path).rgb(0)
    assert pixels.shape == (16, 32, 3)
    assert np.abs(pixels.mean(axis=(0, 1)) - [250, 20, 10]).max() < 4


def test_a_damaged_picture_is_an_error_and_not_a_blank(tmp_path: Path) -> None:
    write_pack(tmp_path, [b"no picture"])
    with pytest.raises(OSError, match="damaged"):
        PicturePack(tmp_path).rgb(0)


def test_scenes_read_back_as_written(tmp_path: Path) -> None:
    scenes = [Scene(0, 10), Scene(10, 25)]
    write_scenes(tmp_path / "scenes.json", scenes)
    assert read_scenes(tmp_path / "scenes.json") == scenes


@pytest.fixture
def make_unpublished(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        write_pack(folder, [b"a"])
        write_frame_table(folder, make_table())
        return folder

    return make


def test_frames_are_found_only_once_published(
    tmp_path: Path, make_unpublished: Callable[[str], Path]
) -> None:
    layout = DataLayout(tmp_path / "data")
    folder = make_unpublished("one")
    assert find_frames(layout, VIDEO_ID, "d1-0") is None
    final = layout.frames(VIDEO_ID, 8.0, "d1-0")
    publish(folder, final)
    assert find_frames(layout, VIDEO_ID, "d1-0") == final
    assert find_frames(layout, VIDEO_ID, "d2-0") is None
    assert not folder.exists()


def test_a_second_writer_of_the_same_frames_leaves_the_first_ones(
    tmp_path: Path, make_unpublished: Callable[[str], Path]
) -> None:
    final = DataLayout(tmp_path / "data").frames(VIDEO_ID, 8.0, "d1-0")
    publish(make_unpublished("one"), final)
    inode = (final / "pictures.pack").stat().st_ino
    second = make_unpublished("two")
    publish(second, final)
    assert (final / "pictures.pack").stat().st_ino == inode
    assert not second.exists()
