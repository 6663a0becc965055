"""Carries out the Dockerfile in a folder that holds a Debian system, where no Docker engine runs.

    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm /tmp/image
    python3 deploy/rehearse_dockerfile.py /tmp/image --env PIP_FIND_LINKS

As root: RUN happens by chroot as the user that the Dockerfile names, COPY honours .dockerignore;
what only a container can do (EXPOSE, VOLUME, HEALTHCHECK, CMD) is printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Instruction:
    word: str
    argument: str


def instructions(dockerfile: str) -> list[Instruction]:
    """The instructions in order, continuation lines joined, comments dropped."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    words = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [Instruction(word.upper(), argument.strip()) for word, argument in words]


@dataclass
class Image:
    """The Debian system in `folder` and what the instructions so far have set."""

    folder: Path
    ignored: tuple[str, ...]
    user: str = "0"
    workdir: str = "/"
    env: dict[str, str] = field(default_factory=lambda: {"PATH": BASE_PATH, "HOME": "/root"})

    def follow(self, instruction: Instruction) -> None:
        handlers: dict[str, Callable[[str], None]] = {
            "RUN": self.run,
            "COPY": self.copy,
            "USER": self.set_user,
            "WORKDIR": self.set_workdir,
            "ENV": self.set_env,
        }
        if handler := handlers.get(instruction.word):
            handler(instruction.argument)

    def run(self, command: str) -> None:
        words = ["chroot", f"--userspec={self.user}", str(self.folder), "/bin/sh", "-c"]
        subprocess.run([*words, f"cd {self.workdir} && {command}"], env=self.env, check=True)

    def copy(self, argument: str) -> None:
        *sources, target = [word for word in argument.split() if not word.startswith("--")]
        destination = self.folder / self.workdir.lstrip("/") / target
        for source in sources:
            self._copy_one(ROOT / source, destination)
        owner = re.search(r"--chown=(\S+)", argument)
        if owner:
            subprocess.run(["chown", "-R", owner[1], str(destination)], check=True)

    def _copy_one(self, source: Path, destination: Path) -> None:
        if source.is_dir():
            ignore = shutil.ignore_patterns(*self.ignored)
            shutil.copytree(source, destination, ignore=ignore, dirs_exist_ok=True)
        else:
            destination.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, destination)

    def set_user(self, user: str) -> None:
        self.user = user
        entries = (self.folder / "etc/passwd").read_text().splitlines()
        homes = {entry.split(":")[2]: entry.split(":")[5] for entry in entries}
        self.env["HOME"] = homes[user]

    def set_workdir(self, folder: str) -> None:
        self.workdir = folder
        (self.folder / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def set_env(self, argument: str) -> None:
        for pair in argument.split():
            name, _, value = pair.partition("=")
            self.env[name] = value.replace("$PATH", self.env["PATH"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Carry out the Dockerfile without Docker.")
    parser.add_argument("folder", type=Path, help="a Debian system, made by debootstrap")
    parser.add_argument("--env", action="append", default=[], help="a variable to hand on")
    parsed = parser.parse_args(arguments)
    ignored = (ROOT / ".dockerignore").read_text().replace("**/", "").split()
    image = Image(parsed.folder, tuple(ignored))
    image.env.update({name: os.environ[name] for name in parsed.env})
    for instruction in instructions((ROOT / "Dockerfile").read_text()):
        sys.stdout.write(f"{instruction.word} {instruction.argument}\n")
        sys.stdout.flush()
        started = time.monotonic()
        image.follow(instruction)
        sys.stdout.write(f"    {time.monotonic() - started:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
