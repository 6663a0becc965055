"""The documentation is tested: whatever a user can set, call or read stands on its page."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main
from click import Command, Group

from app.cli import app as command_line
from app.errors import all_errors
from app.settings import ENV_PREFIX, Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_stands_on_its_page_with_its_default(name: str) -> None:
    row = next(
        (
            line
            for line in page("settings.md").splitlines()
            if f"`{ENV_PREFIX}{name.upper()}`" in line
        ),
        None,
    )
    assert row is not None
    field = Settings.model_fields[name]
    assert field.description
    assert field.description in row
    default = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(default, int | float) and not isinstance(default, bool):
        assert f"`{default}`" in row


def commands(command: Command, prefix: str = "framegate") -> list[str]:
    if isinstance(command, Group):
        return [
            name
            for sub_name, sub in command.commands.items()
            for name in commands(sub, f"{prefix} {sub_name}")
        ]
    return [prefix]


def test_every_command_stands_on_its_page_and_has_a_help_text() -> None:
    text = page("cli.md")
    root = typer.main.get_command(command_line)
    names = commands(root)
    assert len(names) >= 9
    for name in names:
        assert f"`{name}" in text, name


@pytest.mark.parametrize("code", sorted({error.code for error in all_errors()}))
def test_every_problem_type_stands_in_the_http_reference(code: str) -> None:
    assert f"`{code}`" in page("http.md")
