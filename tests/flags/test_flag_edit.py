"""Edits of a flag file: whatever they are put on stays as it was, and what comes out is obeyed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flags.check import check_change, check_flag_text
from flags.findings import errors_of
from flags.flag_edit import (
    Arms,
    Serving,
    UneditableFlagsError,
    content_digest,
    put_arms,
    read_serving,
    sampler_digest,
    serve_all,
)
from flags.provider import DEFAULT_FLAGS_PATH
from flags.targeting import TARGETING_KEY
from tests.flags.flag_files import KNOWN, FlagWorld, decide, document, flag, rollout, split

SHIPPED = DEFAULT_FLAGS_PATH.read_bytes()
ACME = {"in": [{"var": "tenant"}, ["acme"]]}
FIVE = Arms("bolt", "aks", 5, "video.sampler/r1/1/")


def content(made: dict[str, Any]) -> bytes:
    return json.dumps(made).encode()


def rule_of(text: bytes) -> Any:
    return json.loads(text)["flags"]["video.sampler"].get("targeting")


def sampler_flag(rule: Any, default: str = "aks") -> dict[str, Any]:
    return document(flag("bolt", "uniform", "aks", default=default, rule=rule))


def test_the_shipped_file_serves_everyone_one_sampler() -> None:
    assert read_serving(SHIPPED, KNOWN).everyone == "aks"


def test_arms_are_put_into_the_shipped_file_candidate_first() -> None:
    edited = put_arms(SHIPPED, FIVE, KNOWN)
    [found] = rule_of(edited)["if"][1:]

    assert found["fractional"] == [
        {"cat": [FIVE.salt, {"var": "targetingKey"}]},
        ["bolt", 5],
        ["aks", 95],
    ]
    assert read_serving(edited, KNOWN) == Serving(FIVE, None, "aks")
    assert read_serving(edited, KNOWN).everyone is None
    assert check_flag_text(edited, KNOWN) == []


def test_everything_else_of_the_file_stays() -> None:
    before, after = json.loads(SHIPPED), json.loads(put_arms(SHIPPED, FIVE, KNOWN))
    assert after["metadata"] == {"flagSetId": "framegate", "version": "2"}
    assert after["$schema"] == before["$schema"]
    for key in ("video.sampler.shadow", "video.sampler.shadow_rate"):
        assert after["flags"][key] == before["flags"][key]
    assert list(after["flags"]) == list(before["flags"])


def test_raising_the_weight_deals_nobody_anew() -> None:
    five = put_arms(SHIPPED, FIVE, KNOWN)
    half = put_arms(five, Arms("bolt", "aks", 50, FIVE.salt), KNOWN)
    assert check_change(five, half) == []
    assert check_change(half, five) != []


def test_rolling_back_leaves_no_split_and_no_candidate() -> None:
    edited = serve_all(put_arms(SHIPPED, FIVE, KNOWN), "aks", KNOWN, drop="bolt")
    found = json.loads(edited)["flags"]["video.sampler"]

    assert found == {
        "state": "ENABLED",
        "variants": {"aks": "aks", "uniform": "uniform"},
        "defaultVariant": "aks",
    }
    assert read_serving(edited, KNOWN) == Serving(None, "aks", "aks")


def test_rolling_back_to_a_sampler_that_has_no_variant_adds_it() -> None:
    before = content(document(flag("bolt", "aks", rule=split(10, control="aks"))))
    edited = serve_all(before, "uniform", KNOWN, drop="bolt")
    assert json.loads(edited)["flags"]["video.sampler"]["defaultVariant"] == "uniform"


CONDITIONS: list[tuple[str, Any, Any]] = [
    ("none", None, {"if": [TARGETING_KEY, "SPLIT"]}),
    ("empty", {}, {"if": [TARGETING_KEY, "SPLIT"]}),
    ("bare split", split(0, control="aks"), {"if": [TARGETING_KEY, "SPLIT"]}),
    ("guarded", {"if": [TARGETING_KEY, "aks"]}, {"if": [TARGETING_KEY, "SPLIT"]}),
    ("guarded null", {"if": [TARGETING_KEY, None]}, {"if": [TARGETING_KEY, "SPLIT"]}),
    (
        "condition first",
        {"if": [ACME, "uniform"]},
        {"if": [ACME, "uniform", {"if": [TARGETING_KEY, "SPLIT"]}]},
    ),
    (
        "condition and rest",
        {"if": [ACME, "uniform", "aks"]},
        {"if": [ACME, "uniform", {"if": [TARGETING_KEY, "SPLIT"]}]},
    ),
    (
        "nested split",
        {"if": [ACME, {"if": [TARGETING_KEY, split(100, candidate="aks")]}, "uniform"]},
        {"if": [ACME, {"if": [TARGETING_KEY, "SPLIT"]}, "uniform"]},
    ),
]


@pytest.mark.parametrize(("rule", "expected"), [c[1:] for c in CONDITIONS], ids=lambda _: "")
def test_the_split_goes_where_it_reaches_users_and_conditions_stay(
    rule: Any, expected: Any
) -> None:
    edited = put_arms(content(sampler_flag(rule)), FIVE, KNOWN)
    node = {
        "fractional": [{"cat": [FIVE.salt, dict(TARGETING_KEY)]}, ["bolt", 5], ["aks", 95]],
    }
    assert rule_of(edited) == json.loads(json.dumps(expected).replace('"SPLIT"', json.dumps(node)))


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ({"if": [ACME, "uniform", split(9)]}, {"if": [ACME, "uniform"]}),
        ({"if": [ACME, split(9), "uniform"]}, {"if": [ACME, None, "uniform"]}),
        ({"if": [ACME, {"if": [TARGETING_KEY, split(9)]}]}, None),
        ({"if": [ACME, "bolt", {"if": [TARGETING_KEY, split(9)]}]}, {"if": [ACME, "bolt"]}),
        (split(9), None),
    ],
)
def test_conditions_outlive_the_split(rule: Any, left: Any) -> None:
    edited = serve_all(content(sampler_flag(rule, "uniform")), "uniform", KNOWN, drop="bolt")
    assert rule_of(edited) == left


def test_a_variant_of_another_name_is_used_and_a_taken_name_is_not() -> None:
    made = flag("uniform", "aks")
    made["variants"] = {"calm": "uniform", "bolt": "aks"}
    made["defaultVariant"] = "calm"
    edited = put_arms(content(document(made)), Arms("bolt", "uniform", 1, "s/"), KNOWN)
    found = json.loads(edited)["flags"]["video.sampler"]

    assert found["variants"] == {"calm": "uniform", "bolt": "aks", "bolt-sampler": "bolt"}
    assert read_serving(edited, KNOWN).arms == Arms("bolt", "uniform", 1, "s/")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (b"{", "not obeyed"),
        (content({"flags": {}}), "not obeyed"),
        (content(document(flag("nonesuch"))), "not obeyed"),
    ],
)
def test_a_file_that_cannot_take_a_rollout_says_why(made: bytes, said: str) -> None:
    with pytest.raises(UneditableFlagsError, match=said):
        read_serving(made, KNOWN)


def test_users_with_and_without_an_id_may_get_different_samplers() -> None:
    serving = read_serving(content(sampler_flag({"if": [TARGETING_KEY, "uniform"]})), KNOWN)
    assert serving == Serving(None, "uniform", "aks")
    assert serving.samplers == {"uniform", "aks"}
    assert serving.everyone is None


def test_a_disabled_flag_gives_everyone_the_baseline() -> None:
    serving = read_serving(content(document(flag("aks") | {"state": "DISABLED"})), KNOWN)
    assert (serving.everyone, serving.is_enabled) == ("uniform", False)


def test_a_sampler_that_is_gone_can_be_rolled_back_all_the_same() -> None:
    edited = serve_all(content(rollout(50)), "uniform", KNOWN - {"bolt"}, drop="bolt")
    assert check_flag_text(edited, KNOWN - {"bolt"}) == []


def test_an_unknown_sampler_is_never_written() -> None:
    with pytest.raises(UneditableFlagsError, match="would be refused"):
        put_arms(SHIPPED, Arms("nonesuch", "aks", 1, "s/"), KNOWN)


@pytest.mark.parametrize(
    ("version", "after"),
    [(12, 13), ("7", "8"), ("2026-11-a", "2026-11-a.1"), ("v09", "v10"), (None, "1"), ("", "1")],
)
def test_the_version_is_raised(version: Any, after: Any) -> None:
    made = document()
    made["metadata"] = {} if version is None else {"version": version}
    edited = json.loads(serve_all(content(made), "uniform", KNOWN))
    assert edited["metadata"]["version"] == after


def test_the_digest_of_the_sampler_flag_is_that_of_its_meaning() -> None:
    other_rate = document(shadow_rate=flag(0.5))
    assert sampler_digest(content(document())) == sampler_digest(content(other_rate))
    assert content_digest(content(document())) != content_digest(content(other_rate))
    assert sampler_digest(content(rollout(5))) != sampler_digest(content(rollout(6)))
    assert sampler_digest(b"{") is None


def test_the_service_obeys_what_was_written(tmp_path: Path) -> None:
    world = FlagWorld(tmp_path)
    flags = world.open(SHIPPED)
    world.path.write_bytes(put_arms(SHIPPED, Arms("bolt", "aks", 100, "s1/"), KNOWN))
    dealt = decide(flags)
    assert (dealt.sampler_id, dealt.salt, dealt.is_exposure) == ("bolt", "s1/", True)
    assert decide(flags, None).sampler_id == "aks"
    assert world.file.alarm is None


RULES = st.recursive(
    st.sampled_from([None, "aks", "uniform"]),
    lambda inner: st.one_of(
        st.tuples(inner).map(lambda r: {"if": [TARGETING_KEY, r[0]]}),
        st.tuples(inner, inner).map(lambda r: {"if": [ACME, r[0], r[1]]}),
    ),
    max_leaves=6,
)
TOP_RULES = RULES.filter(lambda rule: not isinstance(rule, str))


@given(
    rule=TOP_RULES,
    weights=st.lists(st.integers(1, 100), min_size=1, max_size=4, unique=True).map(sorted),
)
def test_any_rule_takes_any_ladder_and_gets_its_meaning_back(rule: Any, weights: list[int]) -> None:
    before = content(sampler_flag(rule))
    text = before
    for weight in weights:
        raised = put_arms(text, Arms("bolt", "aks", weight, "s/"), KNOWN)
        assert errors_of(check_flag_text(raised, KNOWN)) == []
        assert text is before or check_change(text, raised) == []
        assert read_serving(raised, KNOWN).arms == Arms("bolt", "aks", weight, "s/")
        text = raised
    rolled_back = serve_all(text, "aks", KNOWN, drop="bolt")
    assert errors_of(check_flag_text(rolled_back, KNOWN)) == []
    assert read_serving(rolled_back, KNOWN).everyone == "aks"
