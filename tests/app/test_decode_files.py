"""The 32 real files of the shared manifest: each is decoded, or refused, as the manifest says."""

from __future__ import annotations

import asyncio
import csv
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from app.decode import Decoder
from app.errors import FramegateError, UnreadableVideoError
from app.stores.frames import FrameTable, PicturePack, find_frames, read_scenes
from app.stores.layout import DataLayout
from tests.app.clips import config
from tests.conftest import SHARED

Row: TypeAlias = dict[str, str]
Outcome: TypeAlias = FrameTable | FramegateError

REFUSED = {
    "audio-only-aac.mp4": "no-video-stream",
    "no-streams.mp4": "no-video-stream",
    "mp4-header-ok-zero-samples.mp4": "no-frames",
    "mp4-unknown-codec.mp4": "unsupported-codec",
    "theora-ogv-2x2-permissionerror.ogv": "no-frames",
    "gif-35-bytes-claims-16000x16000.gif": "frame-too-large",
    "ffconcat-disguised.mp4": "not-a-video",
    "html-error-page.mp4": "not-a-video",
}
FRAMES_IN_PROSE = {"3gp-non-utf8-metadata.3gp": 71}
"""Counts that the manifest gives only in its last column."""
LAST_TIME_TOLERANCE_S = {
    # The repair rule only moves forward: after pts that go back it runs ahead, here by 3 frames.
    "h264-avi-no-pts-nonmonotonic.avi": 0.11,
}
CONCURRENT_WORKERS = 2


def manifest() -> list[Row]:
    path = SHARED / "videos" / "manifest.tsv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


ROWS = manifest()
DECODED = [row for row in ROWS if row["name"] not in REFUSED]


def named(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row["name"] for row in rows])


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> DataLayout:
    return DataLayout(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def outcomes(shared_dir: Path, layout: DataLayout) -> dict[str, Outcome]:
    """Every file through a real worker, two at a time."""
    decoder = Decoder(config())
    gate = asyncio.Semaphore(CONCURRENT_WORKERS)

    async def outcome(row: Row) -> Outcome:
        source = shared_dir / "videos" / row["name"]
        async with gate:
            try:
                return await decoder.decode(row["sha256"], source, layout, lambda _: None)
            except FramegateError as error:
                return error

    async def all_outcomes() -> list[Outcome]:
        return await asyncio.gather(*(outcome(row) for row in ROWS))

    found = asyncio.run(all_outcomes())
    return {row["name"]: result for row, result in zip(ROWS, found, strict=True)}


def table_of(outcomes: dict[str, Outcome], row: Row) -> FrameTable:
    outcome = outcomes[row["name"]]
    if isinstance(outcome, FramegateError):
        pytest.fail(f"refused: {outcome.code}: {outcome.detail}")
    return outcome


def test_the_manifest_has_its_32_files(shared_dir: Path) -> None:
    assert len(ROWS) == 32


@pytest.mark.parametrize(("name", "code"), REFUSED.items())
def test_file_is_refused_with_its_reason(
    outcomes: dict[str, Outcome], layout: DataLayout, name: str, code: str
) -> None:
    outcome = outcomes[name]
    assert isinstance(outcome, UnreadableVideoError)
    assert (outcome.code, outcome.status) == (code, 422)
    assert list(layout.temporary.iterdir()) == []


@named(DECODED)
def test_file_has_the_manifests_number_of_frames(outcomes: dict[str, Outcome], row: Row) -> None:
    # Decoding is tolerant: damaged packets are skipped, so the tolerant count is the right one.
    counts = [row["tolerant_frames"], row["decoded_frames"]]
    expected = next((int(c) for c in counts if c != "-"), FRAMES_IN_PROSE.get(row["name"]))
    assert table_of(outcomes, row).num_frames == expected


@named([row for row in DECODED if row["first_pts_s"] != "-"])
def test_file_has_the_manifests_first_and_last_time(outcomes: dict[str, Outcome], row: Row) -> None:
    table = table_of(outcomes, row)
    # Where the counts differ, the manifest's last time is that of the last frame before the damage.
    last = int(row["decoded_frames"]) - 1
    tolerance_s = LAST_TIME_TOLERANCE_S.get(row["name"], 0.001)
    assert table.start_s == pytest.approx(float(row["first_pts_s"]), abs=0.001)
    assert table.start_s + table.timestamps_s[last] == pytest.approx(
        float(row["last_pts_s"]), abs=tolerance_s
    )


@named(DECODED)
def test_file_has_a_sound_table_pictures_and_shots(
    outcomes: dict[str, Outcome], layout: DataLayout, row: Row
) -> None:
    table = table_of(outcomes, row)
    folder = find_frames(layout, table.video_id, table.decode_version)
    assert folder is not None
    assert table.timestamps_s[0] == 0.0
    assert (np.diff(table.timestamps_s) > 0).all()
    assert (np.diff(table.candidates) > 0).all()
    pack = PicturePack(folder)
    assert pack.num_pictures == table.num_candidates
    height, width = pack.rgb(pack.num_pictures - 1).shape[:2]
    assert max(height, width) <= 512
    scenes = read_scenes(layout.scenes(table.video_id, table.detector_version))
    bounds = [scene.start_frame for scene in scenes] + [table.num_frames]
    assert bounds[0] == 0
    assert [scene.end_frame for scene in scenes] == bounds[1:]
    assert bounds == sorted(set(bounds))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hevc-mp4-10bit-hdr10-pq.mp4", {"is_hdr": True}),
        ("h264-mp4-cfr30-720p.mp4", {"is_hdr": False, "fps": 8.0}),
        ("h264-mp4-two-video-streams.mp4", {"stream_index": 0, "width": 320}),
        ("theora-ogv-no-fps.ogv", {"stream_index": 1}),
        ("h264-mov-rot90.mov", {"rotation": 270, "width": 320, "height": 568}),
        ("h264-mp4-with-cover-art.mp4", {"width": 320, "height": 240}),
        ("vp9-mp4-odd-321x241.mp4", {"width": 321, "height": 241}),
        ("av1-mp4-21766-frames-180p.mp4", {"fps": 1.0, "num_candidates": 363}),
        ("h264-mp4-corrupted-midway.mp4", {"num_damaged_packets": 1}),
        ("h264-raw-annexb-no-pts.h264", {"num_repaired_timestamps": 244}),
        ("h264-faststart.mp4", {"num_repaired_timestamps": 0, "num_damaged_packets": 0}),
    ],
)
def test_file_has_its_peculiarity_recorded(
    outcomes: dict[str, Outcome], name: str, expected: dict[str, object]
) -> None:
    table = table_of(outcomes, {"name": name})
    assert {key: getattr(table, key) for key in expected} == expected


def test_a_black_file_is_one_shot(outcomes: dict[str, Outcome], layout: DataLayout) -> None:
    table = table_of(outcomes, {"name": "h264-mp4-black-10s.mp4"})
    assert len(read_scenes(layout.scenes(table.video_id, table.detector_version))) == 1
