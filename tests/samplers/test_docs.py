"""The two pages about samplers, compared with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.cli_new_sampler import PackageNames
from samplers.registry import BUILT_IN, load_registry

DOCS = Path(__file__).resolve().parents[2] / "docs"
REGISTRY = load_registry()


def section(sampler_id: str) -> str:
    page = (DOCS / "samplers.md").read_text()
    found = re.search(rf"^## {sampler_id}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"docs/samplers.md has no section {sampler_id}"
    return found[1]


@pytest.mark.parametrize("sampler_id", list(BUILT_IN))
def test_every_sampler_has_a_complete_section(sampler_id: str) -> None:
    text = section(sampler_id)
    for topic in ("**What.**", "**When.**", "**Fallback.**", "**Source and licence.**"):
        assert topic in text


@pytest.mark.parametrize("sampler_id", list(BUILT_IN))
def test_every_option_is_documented_with_its_default(sampler_id: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section(sampler_id), re.MULTILINE)
    options = REGISTRY.get(sampler_id).options
    assert rows == [(option.name, str(option.default)) for option in options]


@pytest.mark.parametrize("sampler_id", list(BUILT_IN))
def test_every_choice_of_an_option_is_documented(sampler_id: str) -> None:
    for option in REGISTRY.get(sampler_id).options:
        for choice in option.choices:
            assert f"`{choice}`" in section(sampler_id)


def test_the_page_describes_no_sampler_that_does_not_exist() -> None:
    page = (DOCS / "samplers.md").read_text()
    headings = set(re.findall(r"^## (.+)$", page, re.MULTILINE))
    others = {
        "Where they come from",
        "Options and variants",
        "Seeing what a sampler does",
        "What holds for all of them",
        "Which one finds what",
    }
    assert headings == {*others, *BUILT_IN}


def test_the_example_of_a_new_sampler_is_what_the_command_writes() -> None:
    page = (DOCS / "add-a-sampler.md").read_text()
    sampler, tests = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [entry_point] = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    written = PackageNames("peaks").files()
    assert sampler == written["src/framegate_peaks.py"]
    assert tests in written["tests/test_peaks.py"]
    assert entry_point in written["pyproject.toml"]
    for text in (page, written["README.md"]):
        assert "pip install --no-deps -e ." in text
    assert f"Wrote peaks: {', '.join(written)}." in page
