"""Fixtures of the flag tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flags.flag_files import FlagWorld


@pytest.fixture
def world(tmp_path: Path) -> FlagWorld:
    return FlagWorld(tmp_path)
