"""The two pages about samplers, compared with the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from samplers.registry import BUILT_IN, load_registry
from samplers.testing import check_sampler

DOCS = Path(__file__).resolve().parents[2] / "docs"
REGISTRY = load_registry()


def section(sampler_id: str) -> str:
    page = (DOCS / "samplers.md").read_text()
    found = re.search(rf"^## {sampler_id}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"docs/samplers.md has no section {sampler_id}"
    return found[1]


def python_blocks() -> list[str]:
    page = (DOCS / "adding-a-sampler.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


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
    assert headings == {"What holds for all of them", *BUILT_IN}


def test_the_example_of_a_new_sampler_loads_and_keeps_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler_source, test_source = python_blocks()
    (tmp_path / "peaks.py").write_text(sampler_source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "peaks", raising=False)
    registry = load_registry(["peaks:PeaksSampler"])
    assert registry.unavailable == {}
    check_sampler(registry.get("peaks").sampler_class)
    namespace: dict[str, object] = {}
    exec(compile(test_source, "test_peaks.py", "exec"), namespace)
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        assert callable(test)
        test()
