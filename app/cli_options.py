"""What the commands that talk to a running service share: its address, and how they print."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli_client import FramegateClient
from app.settings import load_settings

Server = Annotated[
    str | None, typer.Option(help="Address of the service; default from FRAMEGATE_HOST and _PORT.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the service's JSON document.")]


def connect(server: str | None) -> FramegateClient:
    """A client of `server`, or of the service on this machine. Raises `SettingsError`."""
    settings = load_settings()
    return FramegateClient.of(settings, server or settings.local_url)
