"""Decode and index, once per video: the queue, one job a video, and the wait for it.

    upload -> pending -> processing (decode, then pictures -> features) -> ready | failed

What has to survive is in the catalogue and the stores; jobs and their progress are in memory. After
a crash the next start goes on with every video that is neither ready nor failed, and each step
finds what was already published.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from app.decode import Decoder
from app.encoders.contract import EncoderClient
from app.errors import (
    BusyError,
    DecodeMemoryError,
    DecodeTimeoutError,
    FramegateError,
    IndexFailedError,
    StorageFullError,
    UnreadableVideoError,
    error_from_code,
)
from app.index_job import IndexJob, IndexProgress
from app.index_pictures import EncodingLimits, PictureIndex
from app.settings import Settings
from app.stores.catalogue import Catalogue
from app.stores.eviction import Evictor
from app.stores.features import FeatureKey, FeatureStore
from app.stores.frames import FrameTable, find_frames, read_scenes
from app.stores.layout import DataLayout
from app.stores.removal import discard
from app.stores.rows import Failure, VideoFacts, VideoRow, VideoStatus
from observability import names
from observability.logs import log_event
from observability.metrics import Metrics
from observability.names import Event, Stage
from observability.stages import inject_context, stage

MAX_ATTEMPTS = 5
"""Starts of the service that may find the same video unfinished: one that takes the gateway down
each time must not do so for ever."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexParts:
    """What the index stage works with; built once by the composition root."""

    layout: DataLayout
    catalogue: Catalogue
    decoder: Decoder
    encoder: EncoderClient
    features: FeatureStore
    evictor: Evictor
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class IndexLimits:
    max_decode_workers: int
    max_queue: int
    encoding: EncodingLimits

    @classmethod
    def of(cls, settings: Settings) -> IndexLimits:
        encoding = EncodingLimits(settings.encoder_batch, settings.encoder_patience_s)
        return cls(settings.max_decode_workers, settings.max_index_queue, encoding)


class Indexer:
    """Owned by the gateway's lifespan: `start` after `Intake.recover`, `close` at the end."""

    def __init__(self, parts: IndexParts, limits: IndexLimits) -> None:
        self._parts = parts
        self._max_queue = limits.max_queue
        self._pictures = PictureIndex(
            parts.layout, parts.encoder, parts.features, parts.metrics, limits.encoding
        )
        self._decoding = asyncio.Semaphore(limits.max_decode_workers)
        # One after the other: the encoder has one device, and the first video is ready sooner.
        self._encoding = asyncio.Semaphore(1)
        self._jobs: dict[str, IndexJob] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Go on with what a former process left unfinished."""
        for video_id in await asyncio.to_thread(self._parts.catalogue.unfinished_videos):
            self._start_job(video_id)

    async def close(self) -> None:
        """Stop at once and kill the workers; the next start goes on."""
        interrupted = list(self._tasks)
        await self._cancel(interrupted)
        for video_id in interrupted:
            await asyncio.to_thread(self._parts.catalogue.set_pending, video_id)

    def check_room(self) -> None:
        """Raises BusyError when no further video can be queued. Ask before an upload is read."""
        if len(self._jobs) >= self._max_queue:
            raise BusyError("Too many videos wait to be indexed.", retry_after_s=10.0)

    async def submit(self, video_id: str) -> None:
        """Index an uploaded video, unless it is ready or being indexed.

        One that failed on the service's side is tried again; an unreadable one stays failed.
        """
        if video_id in self._jobs:
            return
        video = await asyncio.to_thread(self._parts.catalogue.find_video, video_id)
        if video is None or video.status is VideoStatus.READY:
            return
        if video.failure is not None:
            if not can_retry(video.failure):
                return
            await asyncio.to_thread(self._parts.catalogue.set_pending, video_id)
        self._start_job(video_id)

    def progress(self, video_id: str) -> IndexProgress | None:
        """How far the video's job is; None when it has none."""
        job = self._jobs.get(video_id)
        return None if job is None else job.progress

    async def until_ready(
        self, tenant: str, video_id: str, wait_s: float
    ) -> AsyncIterator[IndexProgress]:
        """Every change of progress, until all that a question needs is in the stores.

        A video whose derived data were evicted is indexed again. Raises VideoNotFoundError,
        VideoNotReadyError after `wait_s`, BusyError, EncoderUnavailableError, and what made the
        video fail. Pin the video first, or its data may be evicted again at once.
        """
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + wait_s
        while True:
            video = await asyncio.to_thread(self._parts.catalogue.get_video, tenant, video_id)
            if video.failure is not None:
                raise error_from_code(video.failure.code, video.failure.detail)
            if video.status is VideoStatus.READY and await self._has_data(video):
                return
            job = await self._job_for(video)
            if clock() > deadline_s:
                raise job.not_ready()
            async for progress in job.until_done(deadline_s):
                yield progress

    async def wait_until_ready(self, tenant: str, video_id: str, wait_s: float) -> VideoRow:
        """The ready video; raises as `until_ready` does."""
        async for _ in self.until_ready(tenant, video_id, wait_s):
            pass
        return await asyncio.to_thread(self._parts.catalogue.get_video, tenant, video_id)

    async def forget(self, video_id: str) -> None:
        """After a video lost its last owner: stop its job and remove what that wrote meanwhile."""
        await self._cancel([video_id])
        self._parts.features.forget(video_id)
        if await asyncio.to_thread(self._parts.catalogue.find_video, video_id) is not None:
            await self.submit(video_id)  # Uploaded again in between, when the old job still ran.
            return
        layout = self._parts.layout
        await asyncio.to_thread(discard, layout.derived(video_id), layout)

    def is_stored(self, video: VideoRow, encoder_id: str) -> bool:
        """Whether all that a question needs is in the stores. Blocks on disk."""
        layout, versions = self._parts.layout, self._parts.decoder.config
        if video.facts is None or not self._parts.features.has(
            FeatureKey(video.video_id, video.facts.fps, encoder_id)
        ):
            return False
        if not layout.scenes(video.video_id, versions.detector_version).is_file():
            return False
        return find_frames(layout, video.video_id, versions.decode_version) is not None

    async def _has_data(self, video: VideoRow) -> bool:
        info = await self._parts.encoder.info()
        return await asyncio.to_thread(self.is_stored, video, info.encoder_id)

    async def _job_for(self, video: VideoRow) -> IndexJob:
        if video.video_id not in self._jobs:
            self.check_room()
            if video.status is VideoStatus.READY:
                await asyncio.to_thread(self._parts.catalogue.set_pending, video.video_id)
        return self._start_job(video.video_id)

    def _start_job(self, video_id: str) -> IndexJob:
        job = self._jobs.get(video_id)
        if job is None:
            job = IndexJob(video_id, asyncio.get_running_loop().time)
            self._jobs[video_id] = job
            self._tasks[video_id] = asyncio.create_task(self._run(job), name=f"index {video_id}")
        return job

    async def _cancel(self, video_ids: list[str]) -> None:
        tasks = [self._tasks[video_id] for video_id in video_ids if video_id in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: IndexJob) -> None:
        try:
            # `gather` hands over any exception without a broad `except`, and on cancellation waits
            # until the worker is killed.
            with self._parts.evictor.pinned(job.video_id):
                [error] = await asyncio.gather(self._index(job), return_exceptions=True)
                await self._note_end(job, error)
                await asyncio.to_thread(self._parts.evictor.evict)
        except (FramegateError, OSError):
            logger.exception("cleaning up after indexing %s failed", job.video_id)
        finally:
            del self._jobs[job.video_id], self._tasks[job.video_id]
            job.finish()

    async def _index(self, job: IndexJob) -> None:
        parts, video_id = self._parts, job.video_id
        async with self._decoding:
            await self._begin(job)
            table = await self._decode(job)
        async with self._encoding:
            with stage(Stage.INDEX, video_id=video_id, num_candidates=table.num_candidates):
                await self._pictures.index(table, job.encoded)
        facts = await asyncio.to_thread(self._facts, table)
        await asyncio.to_thread(parts.catalogue.set_ready, video_id, facts)

    async def _begin(self, job: IndexJob) -> None:
        parts, video_id = self._parts, job.video_id
        video = await asyncio.to_thread(parts.catalogue.find_video, video_id)
        if video is not None and video.num_attempts >= MAX_ATTEMPTS:
            raise IndexFailedError(f"Indexing was cut short {video.num_attempts} times.")
        if not await asyncio.to_thread(parts.layout.video_bytes(video_id).is_file):
            raise IndexFailedError("The video's bytes are missing.")
        await asyncio.to_thread(parts.catalogue.set_processing, video_id)
        job.start()

    async def _decode(self, job: IndexJob) -> FrameTable:
        layout, video_id = self._parts.layout, job.video_id
        with stage(Stage.DECODE, video_id=video_id) as timer:
            table = await self._decode_or_retry(
                partial(
                    self._parts.decoder.decode,
                    video_id,
                    layout.video_bytes(video_id),
                    layout,
                    job.decoded,
                    inject_context(),
                )
            )
            timer.set("num_frames", table.num_frames)
        self._parts.metrics.packets_damaged(table.num_damaged_packets)
        job.decoded(1.0)
        return table

    async def _decode_or_retry(self, decode: Callable[[], Awaitable[FrameTable]]) -> FrameTable:
        # Ctrl-C in a terminal interrupts the worker a moment before the gateway shuts down; without
        # the second try, which the shutdown then cancels, the next start would find it failed.
        try:
            return await decode()
        except IndexFailedError as error:
            logger.warning("decoding once more: %s", error.detail)
            return await decode()

    def _facts(self, table: FrameTable) -> VideoFacts:
        scenes = self._parts.layout.scenes(table.video_id, table.detector_version)
        return VideoFacts(
            fps=table.fps,
            num_frames=table.num_frames,
            num_candidates=table.num_candidates,
            num_scenes=len(read_scenes(scenes)),
            start_s=table.start_s,
            last_s=float(table.timestamps_s[-1]),
            duration_s=table.duration_s,
            width=table.width,
            height=table.height,
            is_hdr=table.is_hdr,
            num_damaged_packets=table.num_damaged_packets,
        )

    async def _note_end(self, job: IndexJob, error: BaseException | None) -> None:
        if error is None:
            self._parts.metrics.video_finished(names.VideoStatus.READY)
            log_event(logger, Event.VIDEO_FINISHED, video_id=job.video_id, status="ready")
            return
        failure = failure_of(error)
        is_ours = can_retry(failure)
        log_event(
            logger,
            Event.VIDEO_FINISHED,
            level=logging.ERROR if is_ours else logging.INFO,
            exc_info=error if is_ours else None,
            video_id=job.video_id,
            status="failed",
            problem=failure.code,
        )
        self._parts.metrics.video_finished(names.VideoStatus.FAILED)
        await asyncio.to_thread(self._parts.catalogue.set_failed, job.video_id, failure)


def can_retry(failure: Failure) -> bool:
    """The failure is the service's, or of its load: the same bytes may well be indexed later."""
    error = error_from_code(failure.code, failure.detail)
    is_unreadable = isinstance(error, UnreadableVideoError)
    return not is_unreadable or isinstance(error, DecodeTimeoutError | DecodeMemoryError)


def failure_of(error: BaseException) -> Failure:
    """What the catalogue remembers; of an unexpected error only that it happened."""
    if isinstance(error, UnreadableVideoError | IndexFailedError | StorageFullError):
        return Failure(error.code, error.detail)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure(StorageFullError.code, "The service's disk is full.")
    return Failure(IndexFailedError.code, "Indexing failed unexpectedly; the log has the reason.")
