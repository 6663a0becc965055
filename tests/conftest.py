"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.app.engine import RunningEngine

# How long an example takes on a busy machine says nothing about the code: timings decide no test.
settings.register_profile("framegate", deadline=None)
settings.load_profile("framegate")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of test videos and golden vectors beside the project; absent in a plain clone."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder shared/ beside the project (test videos, golden vectors)")
    return SHARED


@pytest.fixture(scope="session")
def running_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """The real vLLM engine under a supervisor, started once a run; it may be starting again."""
    with RunningEngine(tmp_path_factory.mktemp("engine") / "data") as engine:
        yield engine


@pytest.fixture
def engine_url(running_engine: RunningEngine) -> str:
    """Address of the real engine, ready to answer. Mark the test `engine`."""
    running_engine.wait_until_ready()
    return running_engine.url
