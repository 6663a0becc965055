"""The decode worker: `python -m app.decoding.worker`.

Reads one job (`DecodeJob` as JSON) from standard input and writes JSON lines to standard output:
rising `{"progress": 0.25}`, then either `{"done": true}` once everything is written and synced, or
`{"error": {"code": …, "detail": …}}` with a code of `app.errors`. Logs go to standard error.
"""

from __future__ import annotations

import errno
import json
import logging
import sys
import time
from collections.abc import Callable

import av
import cv2

from app.decoding.job import DecodeJob
from app.decoding.limits import bind_to_parent, limit_resources, refuse_exhausted_memory
from app.decoding.stream import WORKING_BYTES
from app.decoding.video import decode_video
from app.errors import (
    DecodeMemoryError,
    FramegateError,
    IndexFailedError,
    StorageFullError,
    UnreadableVideoError,
)

log = logging.getLogger("framegate.decode.worker")
Emit = Callable[[dict[str, object]], None]


def main() -> None:
    """Decode the one job on standard input."""
    job = DecodeJob.from_json(sys.stdin.read())
    bind_to_parent(job.parent_pid)
    # FFmpeg's log callback takes the interpreter's lock, which stalls every decoder thread.
    av.logging.set_level(None)
    cv2.setNumThreads(1)
    limit_resources(
        memory_bytes=job.config.memory_bytes,
        timeout_s=job.config.timeout_s,
        threads=job.config.threads,
    )
    _log_as_json(job)
    emit({"progress": 0.0})
    error = failure_of(job, emit)
    if error is None:
        emit({"done": True})
    else:
        emit({"error": {"code": error.code, "detail": error.detail}})


def failure_of(job: DecodeJob, emit: Emit) -> FramegateError | None:
    """Decode; what went wrong in words a caller understands, or None."""
    try:
        decode_video(job, lambda fraction: emit({"progress": round(fraction, 4)}))
    except FramegateError as error:
        return error
    except MemoryError:
        return DecodeMemoryError()
    except OSError as error:
        return _storage_failure(error)
    except Exception as error:
        # The outermost handler of this process: no file may look like a failing service.
        log.exception("decoding failed unexpectedly")
        return _unexpected_failure(error)
    return None


def emit(message: dict[str, object]) -> None:
    """One line to the parent, sent at once."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _unexpected_failure(error: Exception) -> FramegateError:
    try:
        # A thread that cannot start and OpenCV's own error are but two ways to run out of memory.
        refuse_exhausted_memory(WORKING_BYTES)
    except MemoryError:
        return DecodeMemoryError()
    return UnreadableVideoError(f"The decoder failed on this file ({type(error).__name__}).")


def _storage_failure(error: OSError) -> FramegateError:
    log.exception("writing the decoded video failed")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError("No room to store the frames of the video.")
    return IndexFailedError("The frames of the video could not be stored.")


def _log_as_json(job: DecodeJob) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines(job))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


class _JsonLines(logging.Formatter):
    """Log lines that carry the video and the trace of the request that caused the job."""

    def __init__(self, job: DecodeJob) -> None:
        super().__init__()
        self._context: dict[str, str] = {"video_id": job.video_id, **job.trace_context}

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(
            {
                "time_s": round(time.time(), 3),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
                "exception": self.formatException(record.exc_info) if record.exc_info else None,
                **self._context,
            }
        )


if __name__ == "__main__":
    main()
