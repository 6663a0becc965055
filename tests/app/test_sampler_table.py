"""Which samplers and variants a deployment has, and what makes two of them the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sampler_table import SamplerTable
from app.sampler_variants import MAX_VARIANTS, base_id, is_variant, split_ids, variant_options
from samplers.aks import AksSampler
from samplers.contract import InvalidOptionsError
from samplers.registry import UnknownSamplerError, load_registry
from tests.app.rogue_samplers import TARGETS

Options = Mapping[str, Mapping[str, Any]]
AKS = load_registry().get("aks")


def table_of(options: Options, *targets: str) -> SamplerTable:
    return SamplerTable(load_registry(targets), options, encoder="default")


def refusal(options: Options) -> str:
    with pytest.raises(InvalidOptionsError) as caught:
        table_of(options)
    return str(caught.value)


def test_a_variant_starts_from_its_base_s_configured_options() -> None:
    table = table_of({"aks": {"all_depth": 4}, "aks@t1=0.2": {"t1": 0.2}, "aks@deep": {"t2": 1}})
    defaults = {option.name: option.default for option in table.entry("aks").options}

    assert table.options("aks") == defaults | {"all_depth": 4}
    assert table.options("aks@t1=0.2") == defaults | {"all_depth": 4, "t1": 0.2}
    assert table.options("aks@deep") == defaults | {"all_depth": 4, "t2": 1.0}


def test_a_variant_is_served_like_a_sampler_and_built_once_with_its_options() -> None:
    table = table_of({"aks@t1=0.2": {}})
    built = table.builtin("aks@t1=0.2")

    assert table.ids == frozenset({*load_registry().ids, "aks@t1=0.2"})
    assert isinstance(built, AksSampler)
    assert built.options.t1 == 0.2
    assert built is table.builtin("aks@t1=0.2")
    assert built is not table.builtin("aks")
    assert (table.entry("aks@t1=0.2").id, table.get("aks@t1=0.2").id) == ("aks", "aks@t1=0.2")
    assert table.get("aks@t1=0.2").options == built.options


def test_a_variant_of_an_outside_sampler_is_not_built_here() -> None:
    table = table_of({"first-frames@skip=1": {}}, TARGETS[0])
    assert table.builtin("first-frames@skip=1") is None
    assert not table.entry("first-frames@skip=1").is_builtin


def test_variants_are_listed_behind_their_base() -> None:
    table = table_of({"bolt@b": {"power": 2}, "aks@t2=1": {}, "aks@t1=0.2": {}})
    ids = table.listed_ids
    assert ids[ids.index("aks") :][:3] == ("aks", "aks@t2=1", "aks@t1=0.2")
    assert table.variants("aks") == ("aks@t2=1", "aks@t1=0.2")
    assert table.variants("uniform") == ()


def test_the_name_gives_several_options_by_their_types() -> None:
    table = table_of({"aks@t1=0.2,all_depth=3,scene_hints=false,compat=upstream": {}})
    [variant] = table.variants("aks")
    found = table.options(variant)
    assert found == found | {
        "t1": 0.2,
        "all_depth": 3,
        "scene_hints": False,
        "compat": "upstream",
    }


@given(
    t1=st.floats(allow_nan=False, allow_infinity=False),
    all_depth=st.integers(0, 10),
    scene_hints=st.booleans(),
    compat=st.sampled_from(["safe", "upstream"]),
)
def test_a_name_of_json_values_says_exactly_those(
    t1: float, all_depth: int, scene_hints: bool, compat: str
) -> None:
    said = {"t1": t1, "all_depth": all_depth, "scene_hints": scene_hints, "compat": compat}
    texts = {name: json.dumps(value).strip('"') for name, value in said.items()}
    for name, text in texts.items():
        assert variant_options(AKS, f"aks@{name}={text}", {}) == {name: said[name]}


def test_options_may_be_said_beside_those_of_the_name_and_may_repeat_them() -> None:
    options = table_of({"aks@t1=0.2": {"t1": 0.2, "all_depth": 3}}).options("aks@t1=0.2")
    assert (options["t1"], options["all_depth"]) == (0.2, 3)


@pytest.mark.parametrize(
    ("sampler_id", "given", "said"),
    [
        ("aks@t1=0.2", {"t1": 0.3}, "says t1=0.2, its options say 0.3"),
        ("aks@sharp", {}, "no options of its own"),
        ("aks@", {}, "behind @"),
        ("aks@a b", {"t1": 1}, "behind @"),
        ("aks@a@b", {"t1": 1}, "behind @"),
        ("aks@a/b", {"t1": 1}, "behind @"),
        ("aks@a\n", {"t1": 1}, "behind @"),
        ("aks@ä", {"t1": 1}, "behind @"),
        ("aks@-", {"t1": 1}, "behind @"),
        ("aks@" + "a" * 65, {"t1": 1}, "1 to 64"),
        ("aks@t1=0.2,sharp", {}, "'sharp' is none"),
        ("aks@sharp,deep", {"t1": 1}, "'sharp' is none"),
        ("aks@t1=", {}, "'t1=' is none"),
        ("aks@t1=0.2,", {}, "'' is none"),
        ("aks@t1=0.2,t1=0.2", {}, "'t1' twice"),
        ("aks@t1=high", {}, "option 't1' must be number"),
        ("aks@t3=1", {}, "unknown option 't3'; known: t1, t2"),
        ("aks@sharp", {"t3": 1}, "unknown option 't3'"),
        ("aks@all_depth=99", {}, "all_depth"),
        ("aks@deep", {"all_depth": 99}, "all_depth"),
    ],
)
def test_a_wrong_variant_stops_the_start_and_is_named(
    sampler_id: str, given: dict[str, Any], said: str
) -> None:
    text = refusal({sampler_id: given})
    assert repr(sampler_id) in text
    assert said in text


def test_a_wrong_option_of_a_sampler_names_the_sampler() -> None:
    text = refusal({"aks": {"t1": "high"}})
    assert "'aks'" in text
    assert "'t1'" in text


def test_a_variant_of_no_sampler_stops_the_start() -> None:
    with pytest.raises(UnknownSamplerError, match="no sampler 'nonesuch'; known: uniform"):
        table_of({"nonesuch@t1=0.2": {}})


def test_options_of_an_outside_sampler_that_fails_to_load_do_not_stop_the_start() -> None:
    target = "nonesuch.module:Sampler"
    table = table_of({target: {"a": 1}, f"{target}@b": {"a": 2}}, target)
    assert table.ids == frozenset(load_registry().ids)


def test_variants_are_limited_in_number() -> None:
    named: dict[str, dict[str, Any]] = {
        f"aks@t1=0.{number:03}": {} for number in range(MAX_VARIANTS + 1)
    }
    assert f"{MAX_VARIANTS} are the most" in refusal(named)
    named.popitem()
    assert len(table_of(named).variants("aks")) == MAX_VARIANTS


def test_an_id_that_is_not_there_names_those_that_are() -> None:
    table = table_of({"aks@t1=0.2": {}})
    with pytest.raises(UnknownSamplerError, match=r"no sampler 'aks@t1=0.3'.*aks, aks@t1=0.2"):
        table.entry("aks@t1=0.3")


def test_the_version_is_the_class_s_while_the_options_are_its_defaults() -> None:
    table = table_of({"aks": {"t1": 0.8}, "aks@t1=0.8": {}, "bolt@t": {"scene_hints": True}})
    for sampler_id in ("aks", "aks@t1=0.8", "uniform", "bolt@t"):
        assert table.version(sampler_id) == table.entry(sampler_id).version == "1"


def test_other_options_are_another_version_whatever_the_id() -> None:
    table = table_of({"aks": {"t1": 0.2}, "aks@t1=0.2": {}, "aks@t1=0.3": {}})
    again = table_of({"aks@t1=0.2,all_depth=5": {}, "aks@b": {"t1": 0.3}})

    assert table.version("aks") == table.version("aks@t1=0.2") == "1+8f5c12b0"
    assert table.version("aks@t1=0.3") == again.version("aks@b") != table.version("aks")
    assert again.version("aks@t1=0.2,all_depth=5") == table.version("aks")


@pytest.mark.parametrize(
    ("sampler_id", "base", "is_one"),
    [("aks", "aks", False), ("aks@t1=0.2", "aks", True), ("aks@a@b", "aks", True)],
)
def test_the_base_stands_before_the_first_at(sampler_id: str, base: str, is_one: bool) -> None:
    assert (base_id(sampler_id), is_variant(sampler_id)) == (base, is_one)


def test_a_list_of_ids_is_split_between_them_and_not_within_a_variant() -> None:
    ids = ["aks", "aks@t1=0.2,all_depth=3", "bolt", "aks@sharp", "aks@t1=0.3"]
    assert split_ids(",".join(ids)) == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("aks@t1=0.2,,b=3", ["aks@t1=0.2", "", "b=3"]),
        ("aks,b=3", ["aks", "b=3"]),
        (",b=3,aks", ["", "b=3", "aks"]),
        ("aks,", ["aks", ""]),
    ],
)
def test_only_a_variant_has_commas_in_its_id(text: str, ids: list[str]) -> None:
    assert split_ids(text) == ids


@pytest.mark.parametrize("has_scorer", [True, False])
def test_what_asks_a_model_is_not_built_here_and_lacks_one_where_there_is_none(
    has_scorer: bool,
) -> None:
    options: Options = {"m-llm@num_asked=8": {}}
    table = SamplerTable(load_registry(), options, encoder="default", has_scorer=has_scorer)
    for sampler_id in ("m-llm", "m-llm@num_asked=8"):
        assert table.uses_scorer(sampler_id)
        assert table.builtin(sampler_id) is None
        lack = table.why_unusable(sampler_id)
        assert lack is None if has_scorer else "FRAMEGATE_SCORER_URL" in str(lack)
    for sampler_id in ("aks", "nonesuch"):
        assert not table.uses_scorer(sampler_id)
        assert table.why_unusable(sampler_id) is None


def test_whether_a_model_is_asked_depends_on_the_options() -> None:
    table = table_of({"focus@oracle=model": {}})
    assert [table.uses_scorer(one) for one in ("focus", "focus@oracle=model")] == [False, True]
    assert table.builtin("focus") is not None
    assert table.builtin("focus@oracle=model") is None
