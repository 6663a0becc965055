"""Decode and index: one job a video, whoever asks and whatever dies."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.encoders.contract import PictureFeatures
from app.errors import (
    IndexFailedError,
    NotAVideoError,
    VideoNotFoundError,
    VideoNotReadyError,
)
from app.index import MAX_ATTEMPTS
from app.index_job import IndexProgress
from app.stores.features import FeatureKey, FeatureStore
from app.stores.rows import Failure, VideoStatus
from tests.app.video_world import (
    TENANT,
    VideoWorld,
    build_world,
    chunked,
    running,
    small_clip,
    wait_until,
)
from tests.child_processes import decode_workers
from tests.fakes import FakeEncoderClient

pytestmark = pytest.mark.anyio

WORKERS = "framegate.decode.workers_started"
PICTURES = "framegate.encoder.pictures_encoded"
NUM_CANDIDATES = 16
WAIT_S = 30.0


@pytest.fixture
def clip(tmp_path: Path) -> bytes:
    return small_clip(tmp_path / "clip.mp4")


async def upload(world: VideoWorld, content: bytes) -> str:
    result = await world.intake.intake(TENANT, chunked(content, 50_000))
    await world.indexer.submit(result.video_id)
    return result.video_id


async def until(is_true: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, is_true)


def is_encoding(world: VideoWorld) -> bool:
    """Decoding has published all it made: the writer of the features has begun."""
    return any(name.endswith(".part") for name in world.temporary_files())


async def test_a_hundred_waiters_share_one_decode_and_one_encode(
    tmp_path: Path, clip: bytes
) -> None:
    world = build_world(tmp_path / "data")
    async with running(world):
        result = await world.intake.intake(TENANT, chunked(clip))
        waiters = [
            world.indexer.wait_until_ready(TENANT, result.video_id, WAIT_S) for _ in range(100)
        ]
        videos = await asyncio.gather(*waiters)

        assert {video.status for video in videos} == {VideoStatus.READY}
        assert world.counted(WORKERS) == 1
        assert world.counted(PICTURES) == NUM_CANDIDATES
        assert world.encoder.rows == list(range(NUM_CANDIDATES))


async def test_a_ready_video_is_not_indexed_again(tmp_path: Path, clip: bytes) -> None:
    world = build_world(tmp_path / "data")
    async with running(world):
        video_id = await upload(world, clip)
        await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)
        await upload(world, clip)
        await world.indexer.wait_until_ready(TENANT, video_id, 0.0)

        assert world.indexer.progress(video_id) is None
        assert world.counted(WORKERS) == 1


async def test_features_are_those_of_the_stored_pictures(tmp_path: Path, clip: bytes) -> None:
    world = build_world(tmp_path / "data")
    async with running(world):
        video_id = await upload(world, clip)
        video = await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert video.facts is not None
        key = FeatureKey(video_id, video.facts.fps, world.encoder.encoder_id)
        features = FeatureStore(world.layout, 1 << 20)
        embeddings = features.embeddings(key)
        assert embeddings.shape == (NUM_CANDIDATES, 8)
        assert np.allclose(np.linalg.norm(embeddings, axis=1), 1.0, atol=1e-5)
        assert features.tokens(key, [0, 15]).shape == (2, 2, 4)


async def test_an_encoder_that_dies_midway_costs_no_picture_and_no_decode(
    tmp_path: Path, clip: bytes
) -> None:
    world = build_world(tmp_path / "data", FakeEncoderClient(failures={5: 3, 13: 1}))
    async with running(world):
        video_id = await upload(world, clip)
        await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert world.counted(WORKERS) == 1
        assert world.counted(PICTURES) == NUM_CANDIDATES
        assert world.encoder.rows == list(range(NUM_CANDIDATES))


async def test_an_encoder_that_stays_away_fails_the_video_until_it_is_uploaded_again(
    tmp_path: Path, clip: bytes
) -> None:
    encoder = FakeEncoderClient(failures={5: 2})
    world = build_world(tmp_path / "data", encoder, encoder_patience_s=0.05)
    async with running(world):
        video_id = await upload(world, clip)
        for _ in range(2):
            with pytest.raises(IndexFailedError):
                await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)
            await upload(world, clip)
        video = await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert video.status is VideoStatus.READY
        assert world.counted(WORKERS) == 1
        assert world.counted(PICTURES) == NUM_CANDIDATES


async def test_an_unreadable_video_stays_failed_when_it_is_uploaded_again(tmp_path: Path) -> None:
    world = build_world(tmp_path / "data")
    async with running(world):
        video_id = await upload(world, b"<html>no video</html>")
        with pytest.raises(NotAVideoError):
            await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)
        await upload(world, b"<html>no video</html>")

        assert world.indexer.progress(video_id) is None
        assert world.counted(WORKERS) == 1


async def test_waiting_ends_with_an_estimate_while_the_job_goes_on(
    tmp_path: Path, clip: bytes
) -> None:
    world = build_world(tmp_path / "data")
    world.encoder.gate.clear()
    async with running(world):
        video_id = await upload(world, clip)
        with pytest.raises(VideoNotReadyError) as refused:
            await world.indexer.wait_until_ready(TENANT, video_id, 0.05)
        world.encoder.gate.set()
        video = await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert refused.value.retry_after_s is not None
        assert refused.value.retry_after_s >= 1
        assert video.status is VideoStatus.READY


async def test_progress_rises_from_decoding_through_encoding(tmp_path: Path, clip: bytes) -> None:
    world = build_world(tmp_path / "data")
    seen: list[IndexProgress] = []
    async with running(world):
        video_id = await upload(world, clip)
        async for progress in world.indexer.until_ready(TENANT, video_id, WAIT_S):
            seen.append(progress)

    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert any(0.6 < fraction <= 1.0 for fraction in fractions)
    assert seen[-1].status is VideoStatus.PROCESSING


async def test_a_stranger_cannot_wait_for_a_video(tmp_path: Path, clip: bytes) -> None:
    world = build_world(tmp_path / "data")
    async with running(world):
        video_id = await upload(world, clip)
        with pytest.raises(VideoNotFoundError):
            await world.indexer.wait_until_ready("stranger", video_id, WAIT_S)


async def test_one_video_after_the_other_is_decoded(tmp_path: Path) -> None:
    world = build_world(tmp_path / "data", max_decode_workers=1)
    world.encoder.gate.clear()
    async with running(world):
        ids = [
            await upload(world, small_clip(tmp_path / f"{seed}.mp4", seed=seed))
            for seed in range(3)
        ]
        states = [world.catalogue.get_video(TENANT, video_id).status for video_id in ids]
        world.encoder.gate.set()
        for video_id in ids:
            await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert states.count(VideoStatus.PROCESSING) <= 1
        assert world.counted(WORKERS) == 3


async def test_evicted_data_are_made_again_at_the_next_question(
    tmp_path: Path, clip: bytes
) -> None:
    world = build_world(tmp_path / "data", max_store_bytes=1)
    async with running(world) as client:
        first = await upload(world, clip)
        await world.indexer.wait_until_ready(TENANT, first, WAIT_S)
        second = await upload(world, small_clip(tmp_path / "other.mp4", seed=1))
        await world.indexer.wait_until_ready(TENANT, second, WAIT_S)
        await until(lambda: not world.evictor.has_derived_data(first))
        evicted = (await client.get(f"/v1/videos/{first}")).json()
        with pytest.raises(VideoNotReadyError):
            await world.indexer.wait_until_ready(TENANT, first, 0.0)
        again = (await client.get(f"/v1/videos/{first}")).json()
        await world.indexer.wait_until_ready(TENANT, first, WAIT_S)

        assert (evicted["status"], evicted["is_evicted"]) == ("ready", True)
        assert again["status"] in ("pending", "processing")
        assert world.counted(WORKERS) == 3


async def test_a_restart_goes_on_without_decoding_again(tmp_path: Path, clip: bytes) -> None:
    before = build_world(tmp_path / "data")
    before.encoder.gate.clear()
    async with running(before):
        video_id = await upload(before, clip)
        await until(lambda: is_encoding(before))

    after = build_world(tmp_path / "data")
    async with running(after):
        video = await after.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert video.status is VideoStatus.READY
        assert after.counted(WORKERS) == 0
        assert after.counted(PICTURES) == NUM_CANDIDATES


async def test_a_shutdown_kills_the_worker_and_leaves_nothing_half_done(
    tmp_path: Path, shared_dir: Path
) -> None:
    content = (shared_dir / "videos" / "av1-mp4-21766-frames-180p.mp4").read_bytes()
    world = build_world(tmp_path / "data")
    async with running(world):
        video_id = await upload(world, content)
        await until(lambda: world.counted(WORKERS) == 1)
        started_s = asyncio.get_running_loop().time()
        await world.indexer.close()
        took_s = asyncio.get_running_loop().time() - started_s

        assert took_s < 2.0
        assert world.temporary_files() == []
        assert not world.evictor.has_derived_data(video_id)
        assert world.catalogue.unfinished_videos() == [video_id]


async def test_a_video_that_cuts_every_start_short_is_given_up(tmp_path: Path, clip: bytes) -> None:
    world = build_world(tmp_path / "data")
    video_id = hashlib.sha256(clip).hexdigest()
    await world.intake.intake(TENANT, chunked(clip))
    for _ in range(MAX_ATTEMPTS):
        world.catalogue.set_processing(video_id)
    async with running(world):
        with pytest.raises(IndexFailedError, match="cut short"):
            await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert world.counted(WORKERS) == 0


async def test_lost_bytes_fail_the_video_and_an_upload_mends_it(
    tmp_path: Path, clip: bytes
) -> None:
    world = build_world(tmp_path / "data")
    async with running(world):
        result = await world.intake.intake(TENANT, chunked(clip))
        world.layout.video_bytes(result.video_id).unlink()
        with pytest.raises(IndexFailedError, match="missing"):
            await world.indexer.wait_until_ready(TENANT, result.video_id, WAIT_S)
        await upload(world, clip)
        video = await world.indexer.wait_until_ready(TENANT, result.video_id, WAIT_S)

        assert video.status is VideoStatus.READY


async def test_an_upload_during_a_delete_is_indexed_after_all(tmp_path: Path, clip: bytes) -> None:
    world = build_world(tmp_path / "data")
    world.encoder.gate.clear()
    async with running(world):
        video_id = await upload(world, clip)
        await until(lambda: is_encoding(world))
        assert await world.intake.remove(TENANT, video_id)
        await upload(world, clip)
        await world.indexer.forget(video_id)
        world.encoder.gate.set()
        video = await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert video.status is VideoStatus.READY


async def test_an_encoder_that_is_replaced_midway_leaves_no_rows_of_two_spaces(
    tmp_path: Path, clip: bytes
) -> None:
    class ReplacedEncoder(FakeEncoderClient):
        async def encode_pictures(self, pictures: Path, rows: range) -> PictureFeatures:
            if rows.start > 0:
                self.encoder_id = "fake@00000002"
            return await super().encode_pictures(pictures, rows)

    encoder = ReplacedEncoder()
    world = build_world(tmp_path / "data", encoder)
    async with running(world):
        video_id = await upload(world, clip)
        video = await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert video.status is VideoStatus.READY
        assert encoder.rows[-NUM_CANDIDATES:] == [*range(NUM_CANDIDATES)]
        stored = [path.name for path in world.layout.derived(video_id).glob("embeddings-*")]
        assert len(stored) == 1
        assert "fake@00000002" in stored[0]


async def test_an_unexpected_error_fails_the_video_without_its_text(
    tmp_path: Path, clip: bytes
) -> None:
    class BrokenEncoder(FakeEncoderClient):
        async def encode_pictures(self, pictures: Path, rows: range) -> PictureFeatures:
            raise RuntimeError("secret")

    world = build_world(tmp_path / "data", BrokenEncoder())
    async with running(world):
        video_id = await upload(world, clip)
        with pytest.raises(IndexFailedError) as failed:
            await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert "secret" not in failed.value.detail
        stored = world.catalogue.get_video(TENANT, video_id).failure
        assert stored == Failure("index-failed", failed.value.detail)


async def test_a_worker_that_is_interrupted_from_outside_is_replaced_once(
    tmp_path: Path, clip: bytes
) -> None:
    world = build_world(tmp_path / "data")
    async with running(world):
        video_id = await upload(world, clip)
        # A child that is counted may not have become the worker yet.
        await until(lambda: decode_workers() != [])
        for worker in decode_workers():
            worker.send_signal(signal.SIGTERM)
        video = await world.indexer.wait_until_ready(TENANT, video_id, WAIT_S)

        assert video.status is VideoStatus.READY
        assert world.counted(WORKERS) == 2
