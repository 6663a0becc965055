"""The gateway's side of decoding: one worker a call, killable, and nothing half-written."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from app.decode import Decoder
from app.decoding.job import DecodeConfig
from app.errors import (
    DecodeMemoryError,
    DecodeTimeoutError,
    FrameTooLargeError,
    IndexFailedError,
    NotAVideoError,
    UnreadableVideoError,
)
from app.stores.frames import PicturePack, find_frames, read_scenes
from app.stores.layout import DataLayout
from tests.app.clips import MIB, config, number_in, numbered, write_clip
from tests.child_processes import decode_workers

VIDEO_ID = "cd" * 32
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    return DataLayout(tmp_path / "data")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip.mp4", map(numbered, range(30)))


def ignore(fraction: float) -> None:
    """Progress that nobody watches."""


def assert_nothing_left(layout: DataLayout) -> None:
    assert decode_workers() == []
    assert list(layout.temporary.iterdir()) == []
    assert find_frames(layout, VIDEO_ID, config().decode_version) is None
    assert not layout.derived(VIDEO_ID).exists()


async def decode(
    source: Path,
    layout: DataLayout,
    settings: DecodeConfig | None = None,
    on_progress: Callable[[float], None] = ignore,
) -> None:
    await Decoder(settings or config()).decode(VIDEO_ID, source, layout, on_progress)


@pytest.mark.anyio
async def test_a_video_is_published_with_table_pictures_and_shots(
    clip: Path, layout: DataLayout
) -> None:
    progress: list[float] = []
    table = await Decoder(config()).decode(VIDEO_ID, clip, layout, progress.append)
    folder = find_frames(layout, VIDEO_ID, table.decode_version)
    assert folder == layout.frames(VIDEO_ID, table.fps, table.decode_version)
    pack = PicturePack(folder)
    shown = [number_in(pack.rgb(row)) for row in range(pack.num_pictures)]
    assert shown == table.candidates.tolist()
    scenes = read_scenes(layout.scenes(VIDEO_ID, table.detector_version))
    assert scenes[-1].end_frame == table.num_frames == 30
    assert progress == sorted(progress)
    assert list(layout.temporary.iterdir()) == []
    assert decode_workers() == []


@pytest.mark.anyio
async def test_a_published_video_starts_no_worker(clip: Path, layout: DataLayout) -> None:
    started: list[None] = []
    decoder = Decoder(config(), on_worker_started=lambda: started.append(None))
    first = await decoder.decode(VIDEO_ID, clip, layout, ignore)
    again = await decoder.decode(VIDEO_ID, clip, layout, ignore)
    assert again.timestamps_s.tolist() == first.timestamps_s.tolist()
    assert decoder.workers_started == len(started) == 1


@pytest.mark.anyio
async def test_lost_shots_are_found_again_beside_the_same_pictures(
    clip: Path, layout: DataLayout
) -> None:
    decoder = Decoder(config())
    table = await decoder.decode(VIDEO_ID, clip, layout, ignore)
    scenes = layout.scenes(VIDEO_ID, table.detector_version)
    pictures = layout.frames(VIDEO_ID, table.fps, table.decode_version) / "pictures.pack"
    inode = pictures.stat().st_ino
    scenes.unlink()
    await decoder.decode(VIDEO_ID, clip, layout, ignore)
    assert scenes.is_file()
    assert pictures.stat().st_ino == inode
    assert decoder.workers_started == 2


@pytest.mark.anyio
async def test_another_picture_size_is_another_version(clip: Path, layout: DataLayout) -> None:
    first = await Decoder(config()).decode(VIDEO_ID, clip, layout, ignore)
    second = await Decoder(config(picture_side_px=64)).decode(VIDEO_ID, clip, layout, ignore)
    assert first.decode_version != second.decode_version
    assert find_frames(layout, VIDEO_ID, first.decode_version) is not None
    assert find_frames(layout, VIDEO_ID, second.decode_version) is not None


@pytest.mark.anyio
async def test_overlapping_calls_for_one_video_both_succeed(clip: Path, layout: DataLayout) -> None:
    decoder = Decoder(config())
    tables = await asyncio.gather(
        *(decoder.decode(VIDEO_ID, clip, layout, ignore) for _ in range(2))
    )
    assert [table.num_frames for table in tables] == [30, 30]
    assert list(layout.temporary.iterdir()) == []


@pytest.mark.anyio
async def test_a_file_that_is_no_video_leaves_nothing(tmp_path: Path, layout: DataLayout) -> None:
    (tmp_path / "page.mp4").write_text("<html>not found</html>")
    with pytest.raises(NotAVideoError):
        await decode(tmp_path / "page.mp4", layout)
    assert_nothing_left(layout)


@pytest.mark.anyio
async def test_a_refusal_keeps_its_detail(clip: Path, layout: DataLayout) -> None:
    with pytest.raises(FrameTooLargeError, match="160 x 96"):
        await decode(clip, layout, config(max_frame_pixels=1000))
    assert_nothing_left(layout)


@pytest.mark.anyio
async def test_a_video_whose_bytes_are_gone_is_an_error_and_no_crash(
    tmp_path: Path, layout: DataLayout
) -> None:
    with pytest.raises(UnreadableVideoError):
        await decode(tmp_path / "gone.mp4", layout)


@pytest.mark.anyio
async def test_wall_time_is_bounded(clip: Path, layout: DataLayout) -> None:
    with pytest.raises(DecodeTimeoutError):
        await decode(clip, layout, config(timeout_s=0.05))
    assert_nothing_left(layout)


@pytest.mark.parametrize("memory_mib", [4, 12, 16, 24, 32])
def test_memory_is_bounded(memory_mib: int, tmp_path: Path, layout: DataLayout) -> None:
    large = write_clip(tmp_path / "large.mp4", [numbered(n, 1920, 1080) for n in range(4)])
    with pytest.raises(DecodeMemoryError):
        asyncio.run(decode(large, layout, config(memory_bytes=memory_mib * MIB)))
    assert_nothing_left(layout)


@pytest.mark.anyio
async def test_a_cancelled_call_leaves_no_process_and_no_file(
    clip: Path, layout: DataLayout
) -> None:
    is_running = asyncio.Event()
    task = asyncio.create_task(
        decode(clip, layout, on_progress=lambda _: is_running.set()),
    )
    await is_running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_nothing_left(layout)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("number", "error"),
    [
        (signal.SIGKILL, DecodeMemoryError),
        (signal.SIGSEGV, UnreadableVideoError),
        (signal.SIGXCPU, DecodeTimeoutError),
        (signal.SIGTERM, IndexFailedError),
    ],
)
async def test_a_worker_that_dies_is_an_error_and_leaves_nothing(
    clip: Path, layout: DataLayout, number: signal.Signals, error: type[Exception]
) -> None:
    def strike(_: float) -> None:
        for worker in decode_workers():
            worker.send_signal(number)

    with pytest.raises(error):
        await decode(clip, layout, on_progress=strike)
    assert_nothing_left(layout)


ORPHANING = """
import asyncio, os, pathlib, signal, sys
import psutil
from app.decode import Decoder
from app.stores.layout import DataLayout
from tests.app.clips import config

def freeze(_):
    [worker] = psutil.Process().children()
    worker.send_signal(signal.SIGSTOP)
    print(worker.pid, flush=True)

source, data = map(pathlib.Path, sys.argv[1:])
asyncio.run(Decoder(config()).decode("ef" * 32, source, DataLayout(data), freeze))
"""


def test_a_worker_dies_with_its_parent(clip: Path, layout: DataLayout) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHANING, clip, layout.root], cwd=ROOT, stdout=subprocess.PIPE
    ) as parent:
        if parent.stdout is None:
            pytest.fail("no pipe")
        worker_pid = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while psutil.pid_exists(worker_pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not psutil.pid_exists(worker_pid)
