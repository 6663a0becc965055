"""One pass over a video: frame table, pictures of the candidates and shots, in constant memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from av.video.frame import VideoFrame

from app.decoding.clock import FrameClock
from app.decoding.grid import CandidateGrid, GridPolicy
from app.decoding.job import DecodeConfig, DecodeJob
from app.decoding.pictures import PictureMaker, is_hdr, rotation_degrees
from app.decoding.shots import ShotFinder
from app.decoding.side_thread import SideThread
from app.decoding.stream import VideoSource, open_video
from app.errors import NoFramesError, VideoTooLongError
from app.stores.frames import FrameTable, PackWriter, write_frame_table, write_scenes

PROGRESS_INTERVAL_S = 0.2


def decode_video(job: DecodeJob, on_progress: Callable[[float], None]) -> None:
    """Fill the job's folder. Raises `UnreadableVideoError`, MemoryError and the disk's OSError."""
    config = job.config
    job.frames_folder.mkdir()
    with (
        open_video(
            job.source, max_frame_pixels=config.max_frame_pixels, threads=config.threads
        ) as source,
        PackWriter(job.frames_folder) as pack,
        SideThread() as side,
    ):
        shots = ShotFinder()
        one_pass = OnePass(source, config, Products(pack, shots, side))
        progress = _Progress(source, on_progress)
        for frame in source.frames():
            progress.report(one_pass.take(frame))
        table = one_pass.finish(job)
    write_scenes(job.scenes_file, shots.scenes(table.timestamps_s))
    write_frame_table(job.frames_folder, table)


@dataclass(frozen=True, slots=True)
class Products:
    """Where pictures and shots come to be, and the one thread that touches both."""

    pack: PackWriter
    shots: ShotFinder
    side: SideThread


class OnePass:
    """Feeds every frame to the clock, the grid and the shots.

    Whether a frame is a candidate shows only when the next one comes, so one frame is held back.
    """

    def __init__(self, source: VideoSource, config: DecodeConfig, products: Products) -> None:
        stream = source.stream
        self._source = source
        self._config = config
        self._products = products
        self._clock = FrameClock(stream.time_base, stream.average_rate or stream.guessed_rate)
        self._grid = CandidateGrid(
            GridPolicy(
                fps_max=config.fps_max, fps_min=config.fps_min, target=config.candidate_target
            )
        )
        self._pictures = PictureMaker(
            longest_side_px=config.picture_side_px,
            quality=config.picture_quality,
            pixel_aspect=stream.sample_aspect_ratio,
        )
        self._held: VideoFrame | None = None
        self._held_s = 0.0
        self._num_pixels = 0
        self._size = (0, 0)
        self._rotation = 0
        self._is_hdr = False

    def take(self, frame: VideoFrame) -> float:
        """Take in the next frame; its time in seconds. Raises `VideoTooLongError`."""
        self._count_pixels(frame)
        time_s = self._clock.tick(frame.pts)
        if self._held is None:
            self._size = self._pictures.shown_size(frame)
            self._rotation = rotation_degrees(frame)
            self._is_hdr = is_hdr(frame)
        elif self._grid.admit(len(self._clock) - 2, self._held_s, time_s):
            self._store(self._held)
        if self._products.shots.wants(time_s):
            self._hand_over(partial(self._products.shots.look, time_s, frame))
        self._held, self._held_s = frame, time_s
        return time_s

    def finish(self, job: DecodeJob) -> FrameTable:
        """After the last frame: the whole frame table. Raises `NoFramesError`."""
        if self._held is None:
            damaged = self._source.num_damaged_packets
            raise NoFramesError(f"No frame could be decoded ({damaged} damaged packets).")
        if self._grid.admit_last(len(self._clock) - 1, self._held_s):
            self._store(self._held)
        self._products.side.finish()
        self._products.pack.finish()
        return FrameTable(
            video_id=job.video_id,
            fps=self._grid.fps,
            decode_version=job.config.decode_version,
            detector_version=job.config.detector_version,
            timestamps_s=self._clock.timestamps_s(),
            candidates=self._grid.candidates(),
            width=self._size[0],
            height=self._size[1],
            start_s=self._clock.start_s,
            duration_s=self._clock.duration_s,
            stream_index=self._source.stream.index,
            rotation=self._rotation,
            is_hdr=self._is_hdr,
            container=self._source.container.format.name,
            codec=self._source.stream.codec_context.name,
            num_damaged_packets=self._source.num_damaged_packets,
            num_repaired_timestamps=self._clock.num_repaired,
        )

    def _store(self, frame: VideoFrame) -> None:
        pack = self._products.pack
        self._hand_over(lambda: pack.append(self._pictures.jpeg(frame)))
        while (rows := self._grid.halve_when_full()) is not None:
            self._hand_over(partial(pack.keep, rows))

    def _hand_over(self, call: Callable[[], None]) -> None:
        self._products.side.hand_over(call)

    def _count_pixels(self, frame: VideoFrame) -> None:
        self._num_pixels += frame.width * frame.height
        if self._num_pixels > self._config.max_total_pixels:
            raise VideoTooLongError(
                f"All frames together exceed {self._config.max_total_pixels} pixels."
            )


class _Progress:
    """A rising fraction, at most five times a second: of the duration, or else of the bytes."""

    def __init__(self, source: VideoSource, on_progress: Callable[[float], None]) -> None:
        self._source = source
        self._on_progress = on_progress
        # In microseconds; headers lie about it, hence the fraction is bounded.
        self._duration_s = (source.container.duration or 0) / 1e6
        self._fraction = 0.0
        self._next_report = 0.0

    def report(self, time_s: float) -> None:
        now = time.monotonic()
        if now < self._next_report:
            return
        self._next_report = now + PROGRESS_INTERVAL_S
        is_timed = self._duration_s > 0
        fraction = time_s / self._duration_s if is_timed else self._source.bytes_fraction
        self._fraction = min(1.0, max(self._fraction, fraction))
        self._on_progress(self._fraction)
