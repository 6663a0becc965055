from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flags.check import (
    MAX_DEPTH,
    RefusedFlagsError,
    check_change,
    check_flag_text,
    check_lacks,
)
from flags.findings import Finding, Severity, errors_of
from flags.keys import RATE_KEYS
from flags.provider import DEFAULT_FLAGS_PATH
from tests.flags.flag_files import KNOWN, document, flag, rollout, serving, split


def check(content: dict[str, Any] | str | bytes) -> list[Finding]:
    return check_flag_text(json.dumps(content) if isinstance(content, dict) else content, KNOWN)


def changed(path: str, value: Any) -> dict[str, Any]:
    """A good rollout file in which the value at a `/` path is another one, or gone (`...`)."""
    made = copy.deepcopy(rollout(5))
    *parents, last = path.split("/")
    place = made
    for name in parents:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return made


def test_the_shipped_file_is_free_of_findings() -> None:
    assert check(DEFAULT_FLAGS_PATH.read_bytes()) == []


@pytest.mark.parametrize(
    ("sampler_id", "fix"),
    [
        ("aks@t1=0.2", """FRAMEGATE_SAMPLER_OPTIONS: {"aks@t1=0.2": {}}. Known here: aks"""),
        ("aks@sharp", """FRAMEGATE_SAMPLER_OPTIONS: {"aks@sharp": {"option": value}}. Known"""),
    ],
)
def test_a_variant_that_is_not_declared_is_refused_with_how_to_declare_it(
    sampler_id: str, fix: str
) -> None:
    [finding] = check(serving(sampler_id))
    assert fix in str(finding)


@pytest.mark.parametrize(
    ("content", "num_warnings"),
    [
        (serving("bolt"), 1),
        (document(flag("bolt", "aks"), flag("bolt", "off")), 2),
        (serving("aks"), 0),
        ({}, 0),
        ({"flags": []}, 0),
        ({"flags": {"video.sampler": {"variants": ["bolt"]}}}, 0),
        ({"flags": {"video.sampler": "bolt", "other": flag("bolt")}}, 0),
        ("no JSON", 0),
    ],
    ids=str,
)
def test_a_sampler_that_lacks_something_here_is_warned_of(content: Any, num_warnings: int) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    found = check_lacks(text, {"bolt": "it asks a model"}.get)
    assert [finding.severity for finding in found] == [Severity.WARNING] * num_warnings
    assert all("it asks a model" in str(finding) for finding in found)


def test_a_declared_variant_may_be_served_and_dealt() -> None:
    known = KNOWN | {"aks@t1=0.2,all_depth=3"}
    content = rollout(5, candidate="aks@t1=0.2,all_depth=3", control="uniform")
    content["flags"]["video.sampler"]["variants"] = {one: one for one in known}
    assert errors_of(check_flag_text(json.dumps(content), known)) == []


@pytest.mark.parametrize("weight", [0, 1, 50, 100])
def test_a_rollout_is_free_of_errors(weight: int) -> None:
    assert errors_of(check(rollout(weight))) == []


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"flags": NaN}', "NaN is not JSON"),
        ('{"flags": {}, "flags": {}}', "'flags' is given twice"),
        ("[]", "not a JSON object"),
        ("{}", "no object of flags"),
        ('{"flags": []}', "no object of flags"),
        ('{"flags": {}}', "`video.sampler` is missing"),
        (changed("flags/video.sampler", ...), "`video.sampler` is missing"),
        (changed("flags/video.sampler.shadow", ...), "`video.sampler.shadow` is missing"),
        (changed("$evaluators", {"x": {}}), "`$evaluators`"),
        (changed("flags/video.sampler/targeting", {"$ref": "x"}), "`$ref`"),
        (changed("metadata", []), "not an object"),
        (changed("metadata/owner", ["ann"]), "metadata may have"),
    ],
)
def test_a_file_that_cannot_be_obeyed_as_a_whole_is_refused(content: Any, what: str) -> None:
    errors = errors_of(check(content))
    assert any(what in finding.what for finding in errors), errors


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("", [], ""),
        ("/state", "enabled", ".state"),
        ("/state", ..., ".state"),
        ("/variants", {}, ".variants"),
        ("/variants", ["bolt"], ".variants"),
        ("/variants", {"bolt": "bolt", "uniform": "uniform", "a\x00": "aks"}, ".variants"),
        ("/variants/bolt", "blot", '.variants["bolt"]'),
        ("/variants/bolt", 7, '.variants["bolt"]'),
        ("/variants/bolt", "off", '.variants["bolt"]'),
        ("/defaultVariant", ..., ".defaultVariant"),
        ("/defaultVariant", "", ".defaultVariant"),
        ("/defaultVariant", None, ".defaultVariant"),
        ("/defaultVariant", "blot", ".defaultVariant"),
        ("/targeting", [], ".targeting"),
        ("/targeting", None, ".targeting"),
        ("/targetting", {}, ".targetting"),
        ("/metadata", 1, ".metadata"),
    ],
)
def test_a_bad_flag_is_refused_where_it_is_bad(path: str, value: Any, where: str) -> None:
    errors = errors_of(check(changed(f"flags/video.sampler{path}", value)))
    assert [finding.where for finding in errors] == [f'$.flags["video.sampler"]{where}']


@pytest.mark.parametrize("rate", [-0.1, 1.5, "0.5", True, None, 1e999])
def test_a_shadow_rate_outside_0_to_1_is_refused(rate: Any) -> None:
    for key in RATE_KEYS:
        content = document()
        content["flags"][key] = {**flag(0), "variants": {"0": rate}}
        (finding,) = errors_of(check(json.dumps(content).replace("Infinity", "1e999")))
        assert "no rate" in finding.what


def test_the_rate_of_answers_in_shadow_may_be_missing() -> None:
    assert "video.sampler.shadow_answer_rate" not in document()["flags"]
    assert check(document()) == []


def test_off_is_a_shadow_and_no_sampler() -> None:
    assert errors_of(check(document(shadow=flag("bolt", "off")))) == []
    assert errors_of(check(document(sampler=flag("bolt", "off"))))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (changed("flag", {}), "unknown name"),
        (changed("metadata", ...), "without a version"),
        (changed("flags/video.sampler.shadow_rate", ...), "nothing runs in shadow"),
        (changed("flags/video.samplers", flag("bolt")), "not a flag that Framegate reads"),
        (changed("flags/video.sampler/state", "DISABLED"), "DISABLED"),
        (changed("flags/video.sampler/defaultVariant", "bolt"), "first arm and the default arm"),
    ],
)
def test_what_is_suspicious_is_a_warning_and_no_error(content: dict[str, Any], what: str) -> None:
    findings = check(content)
    assert errors_of(findings) == []
    assert any(what in finding.what for finding in findings), findings


def test_the_control_listed_first_is_a_warning() -> None:
    rule = split(95, candidate="uniform", control="bolt")
    findings = check(document(flag("bolt", "uniform", rule=rule)))
    assert any("List the candidate first" in finding.fix for finding in findings)


def test_conditions_that_the_engine_fails_on_are_refused() -> None:
    rule = {"if": [{"/": [1, 0]}, "bolt", "uniform"]}
    (finding,) = errors_of(check(document(flag("bolt", "uniform", rule=rule))))
    assert "division by zero" in finding.what


def test_too_deep_a_rule_is_refused() -> None:
    rule: Any = True
    for _ in range(MAX_DEPTH):
        rule = {"!": rule}
    assert "levels deep" in check(rollout(5) | {"x": rule})[0].what


def test_a_finding_reads_as_one_line() -> None:
    finding = Finding(Severity.ERROR, "$.flags", "it is missing", "Add it")
    assert str(finding) == "error: $.flags: it is missing. Add it."


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["if", "fractional", "var", "cat", "==", "/", "substr", "merge", "sem_ver", "x", ""]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(rule=json_values)
def test_checking_never_raises_for_any_rule(rule: Any) -> None:
    check(changed("flags/video.sampler/targeting", rule))


@settings(deadline=None)
@given(value=json_values, path=st.sampled_from(["flags", "metadata", "flags/video.sampler"]))
def test_checking_never_raises_for_any_part(value: Any, path: str) -> None:
    content = changed(path, value)
    check(content)
    check_change(json.dumps(content), json.dumps(rollout(5)))


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (rollout(5, salt="s1/"), rollout(5, salt="s2/"), "another salt"),
        (rollout(5, salt=None), rollout(5, salt="s2/"), "another salt"),
        (rollout(25), rollout(5), "falls from 25 to 5"),
        (
            rollout(25),
            document(flag("bolt", "uniform", rule=split(25, candidate="uniform", control="bolt"))),
            "changed places",
        ),
        (
            rollout(25),
            document(flag("aks", "uniform", rule=split(25, candidate="aks"))),
            "serves another sampler",
        ),
        (
            rollout(25),
            {"flags": {"video.sampler": changed("x", 0)["flags"]["video.sampler"]}},
            "falls from 25 to 5",
        ),
    ],
)
def test_a_change_that_moves_users_is_found(
    old: dict[str, Any], new: dict[str, Any], what: str
) -> None:
    findings = check_change(json.dumps(old), json.dumps(new))
    assert [what in finding.what for finding in findings] == [True]


def test_another_total_is_found() -> None:
    thousand = document(
        flag("bolt", "uniform", rule=split(50))
        | {
            "targeting": {
                "fractional": [split(5)["fractional"][0], ["bolt", 50], ["uniform", 950]],
            }
        }
    )
    (finding,) = check_change(json.dumps(rollout(5)), json.dumps(thousand))
    assert "from 100 to 1000" in finding.what


@pytest.mark.parametrize("new", [rollout(5), rollout(25), rollout(100), serving("uniform")])
def test_raising_the_weight_or_ending_the_rollout_gives_no_finding(new: dict[str, Any]) -> None:
    assert check_change(json.dumps(rollout(5)), json.dumps(new)) == []


def test_a_test_of_one_sampler_against_itself_can_grow() -> None:
    same = [
        document(
            {
                "state": "ENABLED",
                "variants": {"a": "uniform", "b": "uniform"},
                "defaultVariant": "b",
                "targeting": split(weight, candidate="a", control="b"),
            }
        )
        for weight in (5, 50)
    ]
    assert errors_of(check(same[0])) == []
    assert check_change(json.dumps(same[0]), json.dumps(same[1])) == []


def test_a_change_to_something_that_is_no_flag_file_is_refused() -> None:
    with pytest.raises(RefusedFlagsError, match="not valid JSON"):
        check_change(json.dumps(rollout(5)), "{")
