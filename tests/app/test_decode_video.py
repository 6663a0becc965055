"""One pass over self-made clips: indices, times, pictures, shots and streams are the right ones."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from av.video.frame import VideoFrame
from PIL import Image

from app.decoding.job import DecodeConfig
from app.decoding.video import decode_video
from app.errors import (
    FrameTooLargeError,
    NoFramesError,
    NotAVideoError,
    NoVideoStreamError,
    VideoTooLongError,
)
from app.stores.frames import FrameTable, PicturePack, read_frame_table, read_scenes
from samplers.contract import Scene
from tests.app.clips import (
    ClipStyle,
    config,
    job_for,
    number_in,
    numbered,
    plain,
    write_audio_only,
    write_clip,
    write_two_streams,
)


@dataclass(frozen=True)
class Decoded:
    table: FrameTable
    pack: PicturePack
    scenes: list[Scene]
    progress: list[float]

    def numbers(self) -> list[int]:
        """What the stored pictures say which frame they show."""
        return [number_in(self.pack.rgb(row)) for row in range(self.pack.num_pictures)]


def decoded(source: Path, settings: DecodeConfig | None = None) -> Decoded:
    job = job_for(source, source.parent / f"{source.name}-decoded", settings)
    progress: list[float] = []
    decode_video(job, progress.append)
    return Decoded(
        table=read_frame_table(job.frames_folder),
        pack=PicturePack(job.frames_folder),
        scenes=read_scenes(job.scenes_file),
        progress=progress,
    )


def test_every_stored_picture_shows_the_frame_that_its_row_names(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", map(numbered, range(60)))
    result = decoded(clip)
    assert result.table.num_frames == 60
    assert result.numbers() == result.table.candidates.tolist()


def test_halving_keeps_pictures_and_candidates_together(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", map(numbered, range(300)))
    result = decoded(clip, config(candidate_target=20))
    assert result.table.fps == 1.0
    assert result.table.candidates.tolist() == list(range(0, 300, 10))
    assert result.numbers() == list(range(0, 300, 10))


def test_times_of_a_variable_frame_rate_come_from_pts(tmp_path: Path) -> None:
    pts_ms = [0, 40, 80, 1000, 1040, 3500, 3540, 5000]
    clip = write_clip(
        tmp_path / "clip.mkv", map(numbered, range(len(pts_ms))), ClipStyle(pts_ms=pts_ms)
    )
    result = decoded(clip, config(fps_max=1.0))
    assert result.table.timestamps_s.tolist() == pytest.approx(np.array(pts_ms) / 1000)
    assert result.table.candidates.tolist() == [0, 3, 4, 6, 7]
    assert result.numbers() == [0, 3, 4, 6, 7]


def test_zero_is_the_first_shown_frame_and_the_files_own_start_is_recorded(tmp_path: Path) -> None:
    style = ClipStyle(pts_ms=[1500 + 100 * n for n in range(5)])
    table = decoded(write_clip(tmp_path / "clip.mkv", map(numbered, range(5)), style)).table
    assert table.start_s == pytest.approx(1.5)
    assert table.timestamps_s.tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert table.duration_s == pytest.approx(0.5)


def test_frames_without_pts_get_increasing_times(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.h264", map(numbered, range(12)), ClipStyle(format="h264"))
    table = decoded(clip).table
    assert table.num_frames == 12
    assert (np.diff(table.timestamps_s) > 0).all()
    assert table.num_repaired_timestamps == 11


@pytest.mark.parametrize("rotation", [90, 180, 270])
@pytest.mark.parametrize("is_mirrored", [False, True])
def test_pictures_are_upright(tmp_path: Path, rotation: int, is_mirrored: bool) -> None:
    # Only the top left field of the stored frame is white.
    style = ClipStyle(rotation=rotation, is_mirrored=is_mirrored)
    clip = write_clip(tmp_path / "clip.mp4", [numbered(1)] * 3, style)
    result = decoded(clip)
    upright = np.rot90(numbered(1), k=rotation // 90)
    upright = upright[:, ::-1] if is_mirrored else upright
    assert (result.table.height, result.table.width) == upright.shape[:2]
    assert np.abs(result.pack.rgb(0).astype(int) - upright).mean() < 12


def test_pixels_become_square(tmp_path: Path) -> None:
    style = ClipStyle(pixel_aspect=Fraction(2, 1))
    result = decoded(write_clip(tmp_path / "clip.mp4", map(numbered, range(3)), style))
    assert (result.table.width, result.table.height) == (320, 96)
    assert result.pack.rgb(0).shape == (96, 320, 3)


def test_the_longest_side_of_pictures_is_bounded_and_never_enlarged(tmp_path: Path) -> None:
    wide = write_clip(tmp_path / "wide.mp4", [numbered(5, 640, 320)] * 2)
    small = write_clip(tmp_path / "small.mp4", [numbered(5, 160, 96)] * 2)
    assert decoded(wide, config(picture_side_px=128)).pack.rgb(0).shape == (64, 128, 3)
    assert decoded(small, config(picture_side_px=512)).pack.rgb(0).shape == (96, 160, 3)


@pytest.mark.parametrize("colour", [(200, 30, 30), (30, 180, 40), (25, 40, 210), (128, 128, 128)])
def test_colours_come_through(tmp_path: Path, colour: tuple[int, int, int]) -> None:
    result = decoded(write_clip(tmp_path / "clip.mp4", [plain(colour)] * 2))
    assert np.abs(result.pack.rgb(0).mean(axis=(0, 1)) - colour).max() < 6


def test_pictures_are_jpeg_files(tmp_path: Path) -> None:
    result = decoded(write_clip(tmp_path / "clip.mp4", [numbered(3)] * 2))
    (tmp_path / "picture.jpg").write_bytes(result.pack.jpeg(0))
    with Image.open(tmp_path / "picture.jpg") as image:
        assert (image.format, image.size) == ("JPEG", (160, 96))


def test_the_first_video_stream_is_used_whatever_the_size_of_the_second(tmp_path: Path) -> None:
    first = [numbered(n) for n in range(8)]
    second = [numbered(n, 640, 384) for n in range(16)]
    table = decoded(write_two_streams(tmp_path / "two.mp4", first, second)).table
    assert (table.stream_index, table.num_frames, table.width) == (0, 8, 160)


def test_cover_art_is_never_the_video(tmp_path: Path) -> None:
    style = ClipStyle(has_cover=True)
    table = decoded(write_clip(tmp_path / "clip.mp4", map(numbered, range(4)), style)).table
    assert (table.stream_index, table.num_frames, table.codec) == (0, 4, "h264")


def test_audio_alone_is_no_video(tmp_path: Path) -> None:
    with pytest.raises(NoVideoStreamError):
        decoded(write_audio_only(tmp_path / "audio.mp4"))


def test_a_black_video_is_one_shot(tmp_path: Path) -> None:
    result = decoded(write_clip(tmp_path / "clip.mp4", [plain((0, 0, 0))] * 40))
    assert result.scenes == [Scene(0, 40)]


def test_hard_cuts_are_found_and_scenes_cover_every_frame(tmp_path: Path) -> None:
    colours = [(200, 30, 30), (30, 180, 40), (25, 40, 210)]
    pictures = [plain(colour) for colour in colours for _ in range(20)]
    result = decoded(write_clip(tmp_path / "clip.mp4", pictures))
    assert result.scenes == [Scene(0, 20), Scene(20, 40), Scene(40, 60)]


def test_cuts_of_a_fast_video_are_at_most_a_tenth_of_a_second_late(tmp_path: Path) -> None:
    pictures = [plain((200, 30, 30))] * 47 + [plain((25, 40, 210))] * 53
    style = ClipStyle(pts_ms=[20 * n for n in range(100)])
    result = decoded(write_clip(tmp_path / "clip.mp4", pictures, style))
    assert [scene.start_frame for scene in result.scenes] == [0, pytest.approx(49.5, abs=2.5)]


def test_a_single_frame_is_a_video(tmp_path: Path) -> None:
    result = decoded(write_clip(tmp_path / "clip.mp4", [numbered(7)]))
    assert result.table.timestamps_s.tolist() == [0.0]
    assert result.table.candidates.tolist() == [0]
    assert result.scenes == [Scene(0, 1)]
    assert result.numbers() == [7]


def test_a_truncated_file_gives_its_whole_frames_for_any_number_of_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 255, (96, 160, 3), dtype=np.uint8) for _ in range(30)]
    clip = write_clip(tmp_path / "clip.mp4", noise, ClipStyle(is_faststart=True))
    counts = set()
    for threads in (1, 2, 4):
        cut = tmp_path / f"cut-{threads}.mp4"
        cut.write_bytes(clip.read_bytes()[: clip.stat().st_size * 7 // 10])
        table = decoded(cut, config(threads=threads)).table
        assert table.num_damaged_packets > 0
        counts.add(table.num_frames)
    assert len(counts) == 1
    assert 5 < counts.pop() < 30


def damaged_clip(path: Path, num_pictures: int, damaged: set[int]) -> Path:
    """A clip of PNG pictures, some of which have lost their first bytes."""
    write_clip(path, map(numbered, range(num_pictures)), ClipStyle(codec="png"))
    start = b"\x89PNG\r\n\x1a\n"
    head, *pictures = path.read_bytes().split(start)
    parts = [bytes(8) if n in damaged else start for n in range(len(pictures))]
    body = b"".join(part + picture for part, picture in zip(parts, pictures, strict=True))
    path.write_bytes(head + body)
    return path


def test_damaged_packets_are_skipped_and_counted(tmp_path: Path) -> None:
    result = decoded(damaged_clip(tmp_path / "clip.mov", 40, {10, 11, 12}))
    assert result.table.num_damaged_packets == 3
    assert result.table.num_frames == 37
    assert result.table.timestamps_s[10] == pytest.approx(1.3)


def test_a_file_whose_every_packet_is_damaged_has_no_frames(tmp_path: Path) -> None:
    clip = damaged_clip(tmp_path / "clip.mov", 5, {0, 1, 2, 3, 4})
    with pytest.raises(NoFramesError, match="5 damaged"):
        decoded(clip)


def test_frames_above_the_pixel_limit_are_refused(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", [numbered(1, 640, 320)] * 2)
    with pytest.raises(FrameTooLargeError, match="640 x 320"):
        decoded(clip, config(max_frame_pixels=640 * 320 - 1))


def test_the_pixels_of_all_frames_are_bounded(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", map(numbered, range(20)))
    with pytest.raises(VideoTooLongError):
        decoded(clip, config(max_total_pixels=160 * 96 * 19))


def test_a_playlist_never_opens_the_file_beside_it(tmp_path: Path) -> None:
    write_clip(tmp_path / "neighbour.mp4", [numbered(1)] * 2)
    for name, text in (
        ("playlist.mp4", "ffconcat version 1.0\nfile neighbour.mp4\n"),
        ("stream.mp4", "#EXTM3U\n#EXTINF:1,\nneighbour.mp4\n#EXT-X-ENDLIST\n"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(NotAVideoError):
            decoded(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"\x00", b"<html>404</html>", b"\x89PNG\r\n\x1a\n" * 9])
def test_what_is_no_video_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "upload").write_bytes(content)
    with pytest.raises(NotAVideoError):
        decoded(tmp_path / "upload")


def test_progress_rises_within_bounds(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", map(numbered, range(400)))
    progress = decoded(clip).progress
    assert progress == sorted(progress)
    assert all(0 <= fraction <= 1 for fraction in progress)


def test_progress_without_a_duration_follows_the_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (96, 160, 3), dtype=np.uint8) for _ in range(60)]
    clip = write_clip(tmp_path / "clip.h264", pictures, ClipStyle(format="h264"))
    progress = decoded(clip).progress
    assert progress == sorted(progress)
    assert progress[-1] <= 1


@pytest.fixture
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_garbage_collection")
def test_frames_are_let_go_without_waiting_for_the_garbage_collector(tmp_path: Path) -> None:
    style = ClipStyle(rotation=90)
    clip = write_clip(tmp_path / "clip.mp4", map(numbered, range(60)), style)
    result = decoded(clip)
    # Reading its side data makes a frame refer to itself: one is allowed to, the first.
    # By type(): isinstance() reads __class__, which deprecated stand-ins of torch warn about.
    held = [thing for thing in gc.get_objects() if issubclass(type(thing), VideoFrame)]
    assert result.pack.num_pictures > 40
    assert len(held) <= 1
