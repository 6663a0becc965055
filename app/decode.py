"""Stage 2, decode: bytes -> frame table, pictures of the candidates, shots.

The work happens in a worker process of its own (`app.decoding.worker`) that can be killed at any
moment: a hostile file can crash, hang or swell it without touching the gateway. This side starts
the worker, relays its progress, enforces wall time and publishes the result, which until then lies
in a temporary folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from app.decoding.job import DecodeConfig, DecodeJob
from app.errors import (
    DecodeMemoryError,
    DecodeTimeoutError,
    FramegateError,
    IndexFailedError,
    UnreadableVideoError,
    error_from_code,
)
from app.stores.frames import (
    FrameTable,
    find_frames,
    publish,
    publish_detector_version,
    read_frame_table,
)
from app.stores.layout import DataLayout

WORKER_MODULE = "app.decoding.worker"
ROOT = Path(__file__).resolve().parents[1]


class Decoder:
    """Decodes each video in a worker process. Built once; calls of `decode` may overlap."""

    def __init__(
        self, config: DecodeConfig, on_worker_started: Callable[[], None] = lambda: None
    ) -> None:
        self.config = config
        self.workers_started = 0
        self._on_worker_started = on_worker_started

    async def decode(
        self,
        video_id: str,
        source: Path,
        layout: DataLayout,
        on_progress: Callable[[float], None],
        trace_context: Mapping[str, str] | None = None,
    ) -> FrameTable:
        """The frame table of `source`, with pictures and shots published under `layout`.

        What is already published is returned without a worker. `on_progress` gets rising fractions
        0..1. Raises `UnreadableVideoError` (its class says why), `StorageFullError` or
        `IndexFailedError`.
        When the caller is cancelled the worker is killed and reaped, and nothing stays behind.
        """
        published = await asyncio.to_thread(self._published_table, video_id, layout)
        if published is not None:
            return published
        with _temporary_folder(layout) as folder:
            job = DecodeJob(
                video_id=video_id,
                source=source,
                folder=folder,
                parent_pid=os.getpid(),
                trace_context=dict(trace_context or {}),
                config=self.config,
            )
            await self._run_worker(job, on_progress)
            return await asyncio.to_thread(_publish_all, job, layout)

    def _published_table(self, video_id: str, layout: DataLayout) -> FrameTable | None:
        folder = find_frames(layout, video_id, self.config.decode_version)
        if folder is None:
            return None
        table = read_frame_table(folder)
        if table.detector_version != self.config.detector_version:
            return None
        return table if layout.scenes(video_id, table.detector_version).is_file() else None

    async def _run_worker(self, job: DecodeJob, on_progress: Callable[[float], None]) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            WORKER_MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        self.workers_started += 1
        self._on_worker_started()
        try:
            async with asyncio.timeout(self.config.timeout_s):
                await _converse(process, job, on_progress)
        except TimeoutError as error:
            raise DecodeTimeoutError(
                f"Decoding took longer than {self.config.timeout_s:g} s."
            ) from error
        finally:
            await _kill_and_reap(process)


async def _converse(
    process: asyncio.subprocess.Process, job: DecodeJob, on_progress: Callable[[float], None]
) -> None:
    """Send the job, relay progress, and return once the worker says that all is written."""
    if process.stdin is None or process.stdout is None:
        raise IndexFailedError("The decode worker has no pipes.")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(job.to_json().encode())
        await process.stdin.drain()
        process.stdin.close()
    async for line in process.stdout:
        message = json.loads(line)
        if "progress" in message:
            on_progress(message["progress"])
        elif "error" in message:
            raise error_from_code(message["error"]["code"], message["error"]["detail"])
        elif message.get("done"):
            return
    raise _error_from_exit(await process.wait())


def _error_from_exit(exit_code: int) -> FramegateError:
    """Why a worker ended without a last word."""
    if exit_code == -signal.SIGKILL:
        return DecodeMemoryError(
            "The decoder was killed by the system, most often for lack of memory."
        )
    if exit_code == -signal.SIGXCPU:
        return DecodeTimeoutError("Decoding used up its processor time.")
    if exit_code in (-signal.SIGTERM, -signal.SIGINT):
        return IndexFailedError("The decoder was stopped.")
    if exit_code < 0:
        return UnreadableVideoError(f"The decoder crashed on this file (signal {-exit_code}).")
    return IndexFailedError(f"The decoder ended with code {exit_code} and no result.")


async def _kill_and_reap(process: asyncio.subprocess.Process) -> None:
    """End the worker, whatever it does; a second cancellation must not leave a zombie."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    # Reading to the end, too, so that the pipes are closed before the loop may be.
    await asyncio.shield(process.communicate())


def _publish_all(job: DecodeJob, layout: DataLayout) -> FrameTable:
    """Shots first: whoever sees the frame table finds its shots."""
    made = read_frame_table(job.frames_folder)
    publish(job.scenes_file, layout.scenes(made.video_id, made.detector_version))
    final = layout.frames(made.video_id, made.fps, made.decode_version)
    if final.exists():
        publish_detector_version(job.frames_folder, final)
    else:
        publish(job.frames_folder, final)
    return read_frame_table(final)


@contextlib.contextmanager
def _temporary_folder(layout: DataLayout) -> Iterator[Path]:
    layout.temporary.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="decode-", dir=layout.temporary))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
