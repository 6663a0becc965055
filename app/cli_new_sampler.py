"""`framegate samplers new`: a small package for a sampler of one's own, that works as it is."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from app.cli_client import CliError
from app.cli_output import console
from app.settings import load_settings
from samplers.registry import BUILT_IN, RESERVED_IDS, load_registry

MAX_NAME_CHARS: Final = 30
"""Below what a flag may hold: longer ones would not fit the lines of the written code."""
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class PackageNames:
    """What a sampler's id becomes in its package."""

    sampler_id: str

    @property
    def stem(self) -> str:
        return self.sampler_id.replace("-", "_")

    @property
    def module(self) -> str:
        """With a prefix: `random` or `json` alone would hide the module that others import."""
        return f"framegate_{self.stem}"

    @property
    def class_name(self) -> str:
        words = self.stem.split("_")
        return "".join(word.capitalize() for word in words) + "Sampler"

    @property
    def distribution(self) -> str:
        return f"framegate-{self.sampler_id.replace('_', '-')}"

    def files(self) -> Mapping[str, str]:
        """Path inside the package -> its text."""
        values = {
            "sampler_id": self.sampler_id,
            "stem": self.stem,
            "module": self.module,
            "class_name": self.class_name,
            "distribution": self.distribution,
        }
        templates = {
            "pyproject.toml": "pyproject.toml",
            "README.md": "README.md",
            f"src/{self.module}.py": "sampler.py",
            f"tests/test_{self.stem}.py": "test_sampler.py",
        }
        return {path: _template(name).substitute(values) for path, name in templates.items()}


def _template(name: str) -> Template:
    path = files("app") / "sampler_package" / f"{name}.template"
    return Template(path.read_text(encoding="utf-8"))


def checked_names(name: str, taken: Collection[str]) -> PackageNames:
    """Raises `CliError` saying what is wrong with the name; `taken` are the ids that exist."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        raise CliError(
            f"{name!r} cannot be a sampler's id: write at most {MAX_NAME_CHARS} lower-case "
            "letters and digits, a letter first, words joined by `-` or `_`."
        )
    if name in RESERVED_IDS:
        raise CliError(f"{name!r} means something else in a flag; choose another name.")
    if name in BUILT_IN:
        raise CliError(f"{name!r} is a sampler of Framegate's own; choose another name.")
    if name in taken:
        raise CliError(f"A sampler {name!r} is installed already; choose another name.")
    return PackageNames(name)


def new(
    name: Annotated[str, typer.Argument(help="The sampler's id, as a flag will name it.")],
    folder: Annotated[
        Path, typer.Option("--dir", help="The package becomes a folder NAME in here.")
    ] = Path(),
) -> None:
    """Write a package for a sampler of your own: code, tests, entry point. It works as it is."""
    names = checked_names(name, load_registry(load_settings().extra_sampler_targets).ids)
    if find_spec(names.module) is not None:
        raise CliError(f"A module {names.module!r} is installed already; choose another name.")
    target = folder / name
    write_package(target, names)
    _say_what_next(target, names)


def write_package(target: Path, names: PackageNames) -> None:
    """Raises `CliError` where something is there already, or cannot be written."""
    try:
        target.mkdir(parents=True)
        for path, text in names.files().items():
            file = target / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except FileExistsError as exc:
        raise CliError(f"{exc.filename} exists already; nothing was written.") from exc
    except OSError as exc:
        raise CliError(f"{exc.filename} cannot be written: {exc.strerror}.") from exc


def _say_what_next(target: Path, names: PackageNames) -> None:
    python, sampler_id = shlex.quote(sys.executable), names.sampler_id
    compared = f"--samplers {sampler_id},aks --out compare.png"
    lines = (
        f"Wrote {target}: {', '.join(names.files())}.",
        "",
        "Install it beside Framegate, test it, then start Framegate anew:",
        f"  cd {shlex.quote(str(target))}",
        f"  {python} -m pip install --no-deps -e .",
        f"  {python} -m pytest",
        "  framegate samplers                        # it is listed, as `outside`",
        "",
        "See what it chooses, for one question, beside another sampler:",
        f'  framegate samplers compare VIDEO "QUESTION" {compared}',
        "",
        "Then in shadow, where nobody sees it (docs/add-a-sampler.md), then for 1 % of the users:",
        f'  framegate rollout start {sampler_id} --stages 1,5,25,50,100 --who YOU --why "REASON"',
    )
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
