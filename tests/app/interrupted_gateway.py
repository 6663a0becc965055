"""A gateway that uploads one video and then waits to be killed: `test_gateway_crash.py` runs it.

    python -m tests.app.interrupted_gateway DATA_DIR CLIP

Prints the video's status, a line for every change. Its encoder hangs after 8 pictures.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from app.encoders.contract import PictureFeatures
from tests.app.video_world import TENANT, build_world, chunked, running
from tests.fakes import FakeEncoderClient


class HangingEncoderClient(FakeEncoderClient):
    async def encode_pictures(self, pictures: Path, rows: range) -> PictureFeatures:
        if rows.start >= 8:
            await asyncio.Event().wait()
        return await super().encode_pictures(pictures, rows)


async def main(data_dir: Path, content: bytes) -> None:
    world = build_world(data_dir, HangingEncoderClient())
    async with running(world):
        result = await world.intake.intake(TENANT, chunked(content, 50_000))
        await world.indexer.submit(result.video_id)
        async for progress in world.indexer.until_ready(TENANT, result.video_id, 60.0):
            sys.stdout.write(f"{progress.status} {progress.fraction:.3f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()))
