from __future__ import annotations

from typing import Any

import pytest

from flags.findings import errors_of
from flags.targeting import Arm, Split, check_rule, find_splits, replace_splits
from tests.flags.flag_files import split

VARIANTS = {"bolt": "bolt", "uniform": "uniform", "aks": "aks"}


@pytest.mark.parametrize(
    "rule",
    [
        split(5),
        split(0, salt=None),
        "bolt",
        {"if": [{"var": "targetingKey"}, split(5)]},
        {"if": [{"==": [{"var": "tenant"}, "acme"]}, "aks", split(5)]},
        {"if": [{"in": [{"var": "tenant"}, ["a", "b"]]}, None, {"if": [True, split(100)]}]},
        {"if": [split(5)]},
    ],
)
def test_good_rules_have_no_errors(rule: Any) -> None:
    assert errors_of(check_rule(rule, VARIANTS, "$")) == []


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (split("5"), "not an integer"),
        (split(5.0), "not an integer"),
        (split(True), "not an integer"),
        ({"fractional": [["bolt", -5], ["uniform", 105]]}, "outside 0..100"),
        ({"fractional": [["bolt", 0], ["uniform", 0]]}, "add up to 0"),
        ({"fractional": [["bolt", 5], ["uniform", 5]]}, "add up to 10"),
        ({"fractional": [["bolt", 500], ["uniform", 500]]}, "outside 0..100"),
        ({"fractional": [["bolt"], ["uniform"]]}, "not an arm"),
        ({"fractional": [["bolt", 50], ["bolt", 50]]}, "same variant"),
        ({"fractional": [["bolt", 5], ["uniform", 90], ["aks", 5]]}, "3 arms"),
        ({"fractional": []}, "0 arms"),
        ({"fractional": {"bolt": 5}}, "not a list"),
        (split(5, candidate="blot"), "`blot` is not in"),
        ({"fractional": [{"var": "tenant"}, ["bolt", 5], ["uniform", 95]]}, "targeting key"),
        ({"fractional": ["salt", ["bolt", 5], ["uniform", 95]]}, "targeting key"),
        ({"if": [True, split(5), split(5)]}, "more than one"),
        ({"if": [split(5), "bolt"]}, "cannot stand in a condition"),
        ({"if": [{"log": "x"}, "bolt"]}, "cannot stand in a condition"),
        ({"if": [{"equals": [1, 1]}, "bolt"]}, "cannot stand in a condition"),
        ({"if": []}, "not a rule"),
        ({"if": [True, "bolt"], "else": "uniform"}, "not a rule"),
        ({"cat": ["bo", "lt"]}, "not a rule"),
        ("blot", "`blot` is not in"),
        (7, "not a rule"),
    ],
)
def test_what_the_engine_would_pass_over_in_silence_is_an_error(rule: Any, what: str) -> None:
    errors = errors_of(check_rule(rule, VARIANTS, "$"))
    assert any(what in finding.what for finding in errors), errors


def test_a_salted_split_outside_a_guard_is_a_warning() -> None:
    assert "other flagd engines" in check_rule(split(5), VARIANTS, "$")[0].what
    guarded = {"if": [{"!!": {"var": "targetingKey"}}, split(5)]}
    assert check_rule(guarded, VARIANTS, "$") == []


def test_findings_point_at_the_place() -> None:
    rule = {"if": [{"var": "targetingKey"}, split("5")]}
    (finding,) = errors_of(check_rule(rule, VARIANTS, "$"))
    assert finding.where == "$.if[1].fractional[1][1]"


def test_the_split_of_a_rule_is_found_with_its_salt() -> None:
    expected = Split("s1/", Arm("bolt", 5), Arm("uniform", 95))
    assert find_splits({"if": [{"var": "x"}, "aks", split(5)]}) == [expected]
    assert find_splits(split(5, salt=None))[0].salt is None
    assert find_splits({"fractional": "x"}) == find_splits(None) == find_splits({}) == []


def test_replacing_splits_leaves_the_rest_and_the_original_alone() -> None:
    rule = {"if": [{"var": "x"}, "aks", split(5)]}
    replaced = replace_splits(rule, len)
    assert replaced == {"if": [{"var": "x"}, "aks", 3]}
    assert rule == {"if": [{"var": "x"}, "aks", split(5)]}
