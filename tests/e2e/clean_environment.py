"""A fresh virtual environment in which a package can be installed, without a network."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

TIMEOUT_S = 300.0


class CleanEnvironment:
    """A new environment that sees the packages of this one; what it installs, it alone has."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        [own] = (folder / "lib").glob("python*/site-packages")
        # By `addsitedir`, which obeys the `.pth` files of an editable install, as a path would not.
        lines = [f"import site; site.addsitedir({seen!r})" for seen in site.getsitepackages()]
        (own / "seen.pth").write_text("\n".join([*lines, ""]))

    def run(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """`python ARGUMENTS` as a user of that environment alone."""
        hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        return subprocess.run(
            [self.python, *arguments],
            cwd=cwd,
            env=environment | {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def install(self, package: Path) -> None:
        """Builds and installs the package in this folder, as `pip install .` does."""
        flags = ("--no-deps", "--no-build-isolation", "--no-cache-dir")
        done = self.run("-m", "pip", "install", *flags, ".", cwd=package)
        assert done.returncode == 0, done.stdout + done.stderr


def this_environment_sees(module: str) -> bool:
    """Whether this Python, in a process of its own, can import it."""
    command = [sys.executable, "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
