"""The page on flags, checked against the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flags.check import check_flag_text
from flags.findings import errors_of
from flags.keys import ALL_KEYS, BASELINE, OFF, Reason
from flags.provider import AlarmKind
from flags.targeting import TOTAL_WEIGHT, check_rule
from tests.flags.flag_files import KNOWN, FlagWorld, decide

PAGE = (Path(__file__).parents[2] / "docs" / "flags.md").read_text(encoding="utf-8")
EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
FILES = [example for example in EXAMPLES if "flags" in example]


@pytest.mark.parametrize("word", [*ALL_KEYS, *Reason, BASELINE, OFF])
def test_every_key_and_every_reason_is_on_the_page(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("word", [*AlarmKind])
def test_every_alarm_is_on_the_page(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_the_total_on_the_page_is_the_one_that_is_checked() -> None:
    assert f"add up to {TOTAL_WEIGHT}" in PAGE


def test_the_files_on_the_page_are_free_of_errors_and_served(world: FlagWorld) -> None:
    assert len(FILES) == 2
    for file, served in zip(FILES, ({"aks", "bolt"}, {"uniform"}), strict=True):
        assert errors_of(check_flag_text(json.dumps(file), KNOWN)) == []
        flags = world.open(file)
        decisions = [decide(flags, f"user-{user}") for user in range(300)]
        assert {decision.sampler_id for decision in decisions} == served


def test_the_rules_on_the_page_are_rules() -> None:
    (rule,) = (example for example in EXAMPLES if "flags" not in example)
    table = re.findall(r'^\| `(\{"fractional".*?\})` \|', PAGE, re.MULTILINE)
    assert len(table) == 2
    variants = dict.fromkeys(("candidate", "control", "bolt", "uniform"), "uniform")
    for each in [rule, *map(json.loads, table)]:
        assert errors_of(check_rule(each, variants, "$")) == []
