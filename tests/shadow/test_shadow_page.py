"""docs/shadow.md against the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import ENV_PREFIX, Settings
from flags.keys import SHADOW, SHADOW_ANSWER_RATE, SHADOW_RATE
from observability.shadow_names import ShadowShed
from shadow.agreement import AgreementMethod, has_options

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "shadow.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("reason", ShadowShed)
def test_every_reason_to_shed_stands_on_the_page(reason: ShadowShed) -> None:
    assert f"| `{reason}` |" in PAGE


@pytest.mark.parametrize("key", [SHADOW, SHADOW_RATE, SHADOW_ANSWER_RATE])
def test_every_flag_of_the_shadow_stands_on_the_page(key: str) -> None:
    assert f"| `{key}` |" in PAGE


@pytest.mark.parametrize("method", AgreementMethod)
def test_every_way_to_compare_answers_stands_on_the_page(method: AgreementMethod) -> None:
    assert f"- **{method}**" in PAGE


@pytest.mark.parametrize(
    "name", sorted(n for n in Settings.model_fields if n.startswith("shadow_"))
)
def test_every_setting_of_the_shadow_stands_on_the_page(name: str) -> None:
    assert f"{ENV_PREFIX}{name.upper()}" in PAGE


@pytest.mark.parametrize("option", ["A) …", "(A) …", "A. …", "A: …"])
def test_the_page_s_forms_of_options_are_options(option: str) -> None:
    assert f"`{option}`" in PAGE
    assert has_options(f"Which? {option} {option.replace('A', 'B')}")
