"""The package list, the licence, the locks, the image and the make targets."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source_tree import PYPROJECT, ROOT, SERVICE_PACKAGES

LOCKS = {"requirements.lock": ("cpu", "demo", "dev"), "requirements-gpu.lock": ("gpu", "demo")}
PIN = re.compile(r"^[a-z0-9-]+==[A-Za-z0-9.!+-]+$")


def pins(lock: str) -> list[str]:
    """The lines of a lock without comments."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / lock).read_text().splitlines()]
    return [line for line in lines if line]


def test_every_package_folder_is_listed_in_pyproject() -> None:
    folders = {
        ".".join(init.parent.relative_to(ROOT).parts)
        for package in SERVICE_PACKAGES
        for init in (ROOT / package).rglob("__init__.py")
    }
    assert folders == set(PYPROJECT["tool"]["setuptools"]["packages"])


def test_the_licence_is_apache_2_in_the_file_and_in_pyproject() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert PYPROJECT["project"]["license"] == "Apache-2.0"


@pytest.mark.parametrize("lock", [*LOCKS, "requirements-data.txt"])
def test_a_lock_pins_every_package_exactly_and_names_no_address(lock: str) -> None:
    assert [pin for pin in pins(lock) if not PIN.match(pin)] == []
    assert "://" not in (ROOT / lock).read_text()


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_meets_every_requirement_of_pyproject(lock: str) -> None:
    locked = dict(pin.split("==") for pin in pins(lock))
    project = PYPROJECT["project"]
    extras = [r for extra in LOCKS[lock] for r in project["optional-dependencies"][extra]]
    required = [*project["dependencies"], *extras, *PYPROJECT["build-system"]["requires"]]
    unmet = [
        text
        for text in required
        for wanted in [Requirement(text)]
        if not wanted.specifier.contains(locked[canonicalize_name(wanted.name)], prereleases=True)
    ]
    assert unmet == []


def test_the_lock_takes_torch_from_every_source() -> None:
    assert "torch==2.13.0" in pins("requirements.lock")
    assert not [pin for pin in pins("requirements.lock") if pin.startswith("nvidia-")]


def test_the_dockerfile_has_no_lint() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("hadolint is not installed (extra `dev`)")
    done = subprocess.run(
        [hadolint, "--no-color", str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_every_make_target_says_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert phony is not None
    described = re.findall(r"^([a-z]+):.* ## .+$", makefile, re.MULTILINE)
    assert described == phony[1].split()


def test_ci_is_a_valid_script_that_runs_the_checks_and_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    subprocess.run(["bash", "-n", str(script)], check=True)
    commands = script.read_text().splitlines()
    assert {"timed make check", "timed make test"} <= set(commands)
