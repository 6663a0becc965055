"""The process that draws a comparison."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest

from app.compare_job import PictureFormat
from app.compare_layout import WIDTH
from app.compare_process import WORKER_MODULE, ComparisonDrawer
from app.errors import UnavailableError
from app.stores.layout import DataLayout
from tests.app.stored_video import DECODE_VERSION
from tests.app.test_compare_picture import comparison, sampler
from tests.app.video_world import wait_until

pytestmark = pytest.mark.anyio

COMPARED = comparison(sampler("one", [10, 50]), sampler("two", [20, 60]))


@pytest.fixture
def drawer(tmp_path: Path) -> ComparisonDrawer:
    """On an empty store: no frame has a picture."""
    layout = DataLayout(tmp_path / "data")
    layout.create()
    return ComparisonDrawer(layout, DECODE_VERSION, dict(os.environ))


def running_workers() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [child for child in children if WORKER_MODULE in child.cmdline()]


async def test_a_picture_comes_back_and_nothing_is_left_running(drawer: ComparisonDrawer) -> None:
    content = await drawer.draw(COMPARED, PictureFormat.PNG)
    pixels = cv2.imdecode(np.frombuffer(content, dtype=np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    assert pixels.shape[1] == WIDTH
    assert running_workers() == []


async def test_an_evicted_video_is_drawn_without_its_pictures(drawer: ComparisonDrawer) -> None:
    content = await drawer.draw(COMPARED, PictureFormat.SVG)
    assert content.count(b"no picture") == 4


async def test_a_caller_that_leaves_ends_the_process(drawer: ComparisonDrawer) -> None:
    drawing = asyncio.create_task(drawer.draw(COMPARED, PictureFormat.PNG))
    await asyncio.to_thread(wait_until, lambda: bool(running_workers()))
    drawing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drawing
    assert running_workers() == []


async def test_a_process_that_dies_is_an_error_with_a_way_out(drawer: ComparisonDrawer) -> None:
    drawing = asyncio.create_task(drawer.draw(COMPARED, PictureFormat.PNG))
    await asyncio.to_thread(wait_until, lambda: bool(running_workers()))
    running_workers()[0].kill()
    with pytest.raises(UnavailableError, match="fewer samplers or a smaller budget"):
        await drawing
