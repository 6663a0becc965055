"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

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
