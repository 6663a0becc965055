"""The other side of `app/worker_process.py`: a process that makes one thing, and ends.

Its job comes as JSON from standard input. To standard output goes a line of JSON, `{}` or
`{"code": …, "detail": …}` with a code of `app.errors`, and after `{}` what was made.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from app.decoding.limits import bind_to_parent
from app.errors import FramegateError

NICENESS = 10


class WorkerJob(BaseModel):
    """Goes through a pipe, never through arguments: it may hold a password, or a question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent_pid: int
    timeout_s: float


JobT = TypeVar("JobT", bound=WorkerJob)


def work(kind: type[JobT], make: Callable[[JobT], bytes]) -> None:
    """Do the one job on standard input, at low priority, for no longer than it may take."""
    job = kind.model_validate_json(sys.stdin.read())
    bind_to_parent(job.parent_pid)
    os.nice(NICENESS)
    signal.setitimer(signal.ITIMER_REAL, job.timeout_s)
    # Else it tells standard error, which is the gateway's, of the fonts that it looks through.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        made = make(job)
    except FramegateError as error:
        _write(json.dumps({"code": error.code, "detail": error.detail}).encode())
    else:
        _write(b"{}\n" + made)


def _write(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
