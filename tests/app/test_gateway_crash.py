"""`kill -9` of the gateway: nothing half-written is seen, and the next start goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from app.stores.rows import VideoStatus
from tests.app.video_world import TENANT, build_world, running, small_clip, wait_until

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def killed_at(data_dir: Path, clip: Path, fraction: float) -> Iterator[list[psutil.Process]]:
    """A gateway killed once its video got so far; the processes that it had started."""
    command = [sys.executable, "-m", "tests.app.interrupted_gateway", str(data_dir), str(clip)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        for line in gateway.stdout:
            if float(line.split()[1]) >= fraction:
                break
        children = psutil.Process(gateway.pid).children(recursive=True)
        gateway.kill()
        yield children


async def test_a_gateway_killed_while_encoding_goes_on_without_decoding(tmp_path: Path) -> None:
    small_clip(tmp_path / "clip.mp4")
    with killed_at(tmp_path / "data", tmp_path / "clip.mp4", 0.7) as children:
        wait_until(lambda: not any(child.is_running() for child in children), 5.0)

    world = build_world(tmp_path / "data")
    assert list(world.layout.root.glob("derived/??/*/embeddings*")) == []
    async with running(world):
        [video_id] = world.stored_videos()
        video = await world.indexer.wait_until_ready(TENANT, video_id, 30.0)

        assert video.status is VideoStatus.READY
        assert world.counted("framegate.decode.workers_started") == 0
        assert world.counted("framegate.encoder.pictures_encoded") == 16
        assert world.temporary_files() == []


async def test_a_gateway_killed_while_decoding_leaves_no_worker_and_no_half_entry(
    tmp_path: Path, shared_dir: Path
) -> None:
    clip = shared_dir / "videos" / "av1-mp4-21766-frames-180p.mp4"
    with killed_at(tmp_path / "data", clip, 0.05) as children:
        assert children != []
        wait_until(lambda: not any(child.is_running() for child in children), 5.0)

    world = build_world(tmp_path / "data")
    assert list(world.layout.root.glob("derived/??/*")) == []
    async with running(world):
        [video_id] = world.stored_videos()
        assert world.catalogue.unfinished_videos() == [video_id]
        wait_until(lambda: world.indexer.progress(video_id) is not None)
