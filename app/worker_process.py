"""Has one thing made in a process of its own, which is killed when nobody waits for it any more.

What takes seconds of processor time, reading, resampling, drawing, must not run beside the event
loop; and it must end with its caller, which a thread does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from app.errors import UnavailableError, error_from_code
from app.stores.layout import DataLayout
from app.worker_job import WorkerJob

ROOT = Path(__file__).resolve().parents[1]


class WorkerProcess:
    """Knows the module to run, which calls `worker_job.work`. Nothing runs between the calls."""

    def __init__(self, module: str, environment: Mapping[str, str], way_out: str) -> None:
        """`way_out` is what the caller may do where the process fails."""
        self.module = module
        self._environment = dict(environment)
        self._way_out = way_out

    async def made(self, job: WorkerJob) -> bytes:
        """What the process made.

        Raises the error that it tells of, and `UnavailableError` where it fails or takes too long.
        When the caller is cancelled the process is killed.
        """
        head, _, content = (await self._output_of(job)).partition(b"\n")
        problem = json.loads(head)
        if problem:
            raise error_from_code(problem["code"], problem["detail"])
        return content

    async def _output_of(self, job: WorkerJob) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self.module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env=self._environment,
        )
        try:
            output, _ = await process.communicate(job.model_dump_json().encode())
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            # Shielded: a second cancellation must not leave a zombie.
            await asyncio.shield(process.wait())
        if process.returncode:
            raise UnavailableError(
                f"The process that makes it ended with code {process.returncode}; {self._way_out}"
            )
        return output


def drawing_environment(base: Mapping[str, str], layout: DataLayout) -> dict[str, str]:
    """The environment of a process that may draw."""
    # Else matplotlib looks through all fonts each time where the home folder is read-only.
    fonts = {"MPLCONFIGDIR": str(layout.run / "matplotlib"), "OPENBLAS_NUM_THREADS": "1"}
    return {**base, **fonts}
