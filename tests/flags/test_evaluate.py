from __future__ import annotations

import importlib.metadata
import itertools
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import FlagResolutionDetails
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

from flags.evaluate import Decision, Flags, RequestContext, User
from flags.provider import DEFAULT_FLAGS_PATH
from flags.stamped_file import SETTLED_AFTER_NS
from tests.flags.flag_files import (
    KNOWN,
    FlagWorld,
    decide,
    document,
    flag,
    put,
    rollout,
    serving,
    split,
)

RAMP = (1, 5, 25, 50, 100)


def dealt_to_bolt(world: FlagWorld, weight: int, num_users: int, **parts: Any) -> set[int]:
    flags = world.open(rollout(weight, **parts), ahead_ns=10 * SETTLED_AFTER_NS)
    return {user for user in range(num_users) if decide(flags, f"user-{user}").sampler_id == "bolt"}


@pytest.mark.parametrize(("salt", "num_users"), [("2026-11/", 5_000), (None, 1_000)])
def test_a_ramp_only_ever_adds_users(world: FlagWorld, salt: str | None, num_users: int) -> None:
    stages = [dealt_to_bolt(world, weight, num_users, salt=salt) for weight in RAMP]
    for smaller, larger in itertools.pairwise(stages):
        assert smaller < larger
    for weight, stage in zip(RAMP, stages, strict=True):
        assert len(stage) / num_users == pytest.approx(weight / 100, abs=0.03)


@settings(max_examples=20, deadline=None)
@given(
    weights=st.lists(st.integers(0, 100), min_size=2, max_size=4).map(sorted),
    salt=st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=8),
    users=st.sets(st.text(min_size=1, max_size=12), min_size=1, max_size=30),
)
def test_whoever_has_the_candidate_keeps_it_while_its_weight_grows(
    tmp_path_factory: pytest.TempPathFactory, weights: list[int], salt: str, users: set[str]
) -> None:
    world = FlagWorld(tmp_path_factory.mktemp("ramp"))
    flags = world.open(rollout(weights[0], salt=salt))
    before: set[str] = set()
    for weight in weights:
        put(world.path, rollout(weight, salt=salt))
        now = {user for user in users if decide(flags, user).sampler_id == "bolt"}
        assert before <= now
        before = now


def test_a_user_keeps_an_arm_across_requests_and_restarts(world: FlagWorld) -> None:
    first = dealt_to_bolt(world, 50, 300)
    assert dealt_to_bolt(world, 50, 300) == first


def test_another_salt_and_another_tenant_deal_anew(world: FlagWorld) -> None:
    first = dealt_to_bolt(world, 50, 300)
    assert dealt_to_bolt(world, 50, 300, salt="s2/") != first
    flags = world.open(rollout(50))
    users = [f"user-{user}" for user in range(300)]
    elsewhere = {
        user
        for user in range(300)
        if decide(flags, users[user], tenant="other").sampler_id == "bolt"
    }
    assert elsewhere != first


def test_a_dealt_user_is_an_exposure_with_all_that_deals_them_again(world: FlagWorld) -> None:
    decision = decide(world.open(rollout(100)))
    assert decision == Decision(
        sampler_id="bolt",
        reason="SPLIT",
        variant="bolt",
        flag_key="video.sampler",
        flag_version=world.file.version,
        flag_set_id="test",
        salt="s1/",
        engine_version=importlib.metadata.version("openfeature-flagd-core"),
        provider_name="framegate-file",
        has_targeting_key=True,
        is_exposure=True,
    )


@pytest.mark.parametrize("user_id", [None, ""])
@pytest.mark.parametrize("salt", [None, "s1/"])
def test_without_a_user_id_the_default_arm_is_served_and_is_no_exposure(
    world: FlagWorld, user_id: str | None, salt: str | None
) -> None:
    decision = decide(world.open(rollout(100, salt=salt)), user_id)
    assert (decision.sampler_id, decision.reason) == ("uniform", "DEFAULT")
    assert not decision.is_exposure
    assert not decision.has_targeting_key
    assert decision.error is None


def test_a_user_named_by_a_condition_is_no_exposure(world: FlagWorld) -> None:
    rule = {"if": [{"==": [{"var": "tenant"}, "acme"]}, "aks", split(100)]}
    flags = world.open(document(flag("aks", "bolt", "uniform", rule=rule)))
    named = decide(flags)
    assert (named.sampler_id, named.reason, named.is_exposure) == ("aks", "TARGETING_MATCH", False)
    dealt = decide(flags, tenant="other")
    assert (dealt.sampler_id, dealt.reason, dealt.is_exposure) == ("bolt", "SPLIT", True)
    assert decide(flags, None).sampler_id == "aks"
    assert decide(flags, None, tenant="other").sampler_id == "uniform"


def test_a_condition_may_read_the_attributes_of_the_request(world: FlagWorld) -> None:
    rule = {"if": [{">": [{"var": "video_s"}, 60]}, "bolt"]}
    flags = world.open(document(flag("bolt", "uniform", rule=rule)))
    for seconds, sampler_id in ((30.0, "uniform"), (90.0, "bolt")):
        context = RequestContext(KNOWN, attributes={"video_s": seconds})
        assert flags.sampler_for(User("acme", "ann"), context).sampler_id == sampler_id


def test_without_a_rule_everyone_gets_the_default_and_nobody_is_exposed(world: FlagWorld) -> None:
    decision = decide(world.open(serving("bolt")))
    assert (decision.sampler_id, decision.reason) == ("bolt", "STATIC")
    assert not decision.is_exposure


def test_a_disabled_flag_serves_the_baseline(world: FlagWorld) -> None:
    decision = decide(world.open(document(flag("bolt") | {"state": "DISABLED"})))
    assert (decision.sampler_id, decision.reason, decision.error) == ("uniform", "DISABLED", None)


@pytest.mark.parametrize("user_id", [None, "ann"])
def test_the_shipped_file_serves_the_recommended_sampler_without_shadow(
    world: FlagWorld, user_id: str | None
) -> None:
    decision = decide(world.open(DEFAULT_FLAGS_PATH.read_bytes()), user_id)
    assert (decision.sampler_id, decision.shadow_sampler_id) == ("aks", None)
    assert decision.is_exposure == (user_id is not None)


def test_the_override_wins_over_the_flag_and_is_no_exposure(world: FlagWorld) -> None:
    decision = decide(world.open(rollout(100)), override="shot")
    assert (decision.sampler_id, decision.reason) == ("shot", "OVERRIDE")
    assert not decision.is_exposure


def test_an_unknown_override_gives_the_baseline_and_says_so(world: FlagWorld) -> None:
    decision = decide(world.open(rollout(100)), override="blot")
    assert (decision.sampler_id, decision.reason) == ("uniform", "ERROR")
    assert "'blot'" in str(decision.error)


def test_the_kill_switch_wins_over_flag_and_override_until_it_is_off(world: FlagWorld) -> None:
    flags = world.open(rollout(100))
    world.kill_switch.set(is_on=True, who="ann", why="test")
    for override in (None, "shot"):
        decision = decide(flags, override=override)
        assert (decision.sampler_id, decision.reason) == ("uniform", "KILL_SWITCH")
        assert not decision.is_exposure
    world.kill_switch.set(is_on=False, who="ann", why="test")
    assert decide(flags).sampler_id == "bolt"


def test_the_kill_switch_wins_while_the_flag_file_is_broken(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    put(world.path, "{")
    assert decide(flags).sampler_id == "bolt"
    world.kill_switch.set(is_on=True, who="ann", why="test")
    assert decide(flags).reason == "KILL_SWITCH"


def test_the_shadow_sampler_and_its_rate_come_with_the_decision(world: FlagWorld) -> None:
    flags = world.open(document(flag("aks"), flag("bolt"), flag(0.25)))
    decision = decide(flags)
    assert (decision.shadow_sampler_id, decision.shadow_rate) == ("bolt", 0.25)
    assert decide(flags, override="shot").shadow_sampler_id is None


def test_the_answer_rate_comes_with_the_decision_and_is_0_where_it_is_missing(
    world: FlagWorld,
) -> None:
    content = document(flag("aks"), flag("bolt"), flag(0.25))
    decision = decide(world.open(content))
    assert (decision.shadow_answer_rate, decision.shadow_error) == (0, None)
    content["flags"]["video.sampler.shadow_answer_rate"] = flag(0.125)
    assert decide(world.open(content)).shadow_answer_rate == 0.125


def in_memory(world: FlagWorld, **values: Any) -> Flags:
    """Flags over OpenFeature's own provider, which checks nothing."""
    names = {
        "sampler": "",
        "shadow": ".shadow",
        "rate": ".shadow_rate",
        "answer_rate": ".shadow_answer_rate",
    }
    provider = InMemoryProvider(
        {
            f"video.sampler{names[name]}": InMemoryFlag("v", {"v": value})
            for name, value in values.items()
        }
    )
    return Flags(provider, world.kill_switch)


def test_any_openfeature_provider_can_decide(world: FlagWorld) -> None:
    decision = decide(in_memory(world, sampler="bolt", shadow="aks", rate=0.5))
    assert (decision.sampler_id, decision.variant, decision.error) == ("bolt", "v", None)
    assert (decision.provider_name, decision.flag_version) == ("In-Memory Provider", None)
    assert (decision.shadow_sampler_id, decision.shadow_rate) == ("aks", 0.5)


@pytest.mark.parametrize(
    ("value", "error"), [("blot", "unknown sampler 'blot'"), ("off", "'off'"), (7, "TYPE_MISMATCH")]
)
def test_a_value_that_is_no_known_sampler_gives_the_baseline(
    world: FlagWorld, value: Any, error: str
) -> None:
    decision = decide(in_memory(world, sampler=value))
    assert (decision.sampler_id, decision.reason, decision.variant) == ("uniform", "ERROR", None)
    assert error in str(decision.error)


def test_a_missing_flag_gives_the_baseline(world: FlagWorld) -> None:
    decision = decide(in_memory(world))
    assert (decision.sampler_id, decision.reason) == ("uniform", "ERROR")
    assert "FLAG_NOT_FOUND" in str(decision.error)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({}, "FLAG_NOT_FOUND"),
        ({"shadow": "blot"}, "'blot'"),
        ({"shadow": "aks"}, "FLAG_NOT_FOUND"),
        ({"shadow": "aks", "rate": 7.5}, "outside 0..1"),
        ({"shadow": "aks", "rate": float("nan")}, "outside 0..1"),
        ({"shadow": "aks", "rate": "1"}, "TYPE_MISMATCH"),
        ({"shadow": "aks", "rate": 1.0, "answer_rate": -1.0}, "outside 0..1"),
        ({"shadow": "aks", "rate": 1.0, "answer_rate": "1"}, "TYPE_MISMATCH"),
    ],
)
def test_a_bad_shadow_flag_means_no_shadow_and_leaves_the_answer_alone(
    world: FlagWorld, values: dict[str, Any], error: str
) -> None:
    decision = decide(in_memory(world, sampler="bolt", **values))
    assert (decision.sampler_id, decision.error) == ("bolt", None)
    assert (decision.shadow_sampler_id, decision.shadow_rate) == (None, 0)
    assert error in str(decision.shadow_error)


class RaisingProvider(InMemoryProvider):
    def resolve_string_details(
        self,
        flag_key: str,
        default_value: str,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[str]:
        raise ZeroDivisionError("the store is on fire")


def test_a_provider_that_raises_gives_the_baseline_without_a_traceback_in_the_log(
    world: FlagWorld, caplog: pytest.LogCaptureFixture
) -> None:
    flags = Flags(RaisingProvider({}), world.kill_switch)
    with caplog.at_level(logging.DEBUG):
        decision = decide(flags)
    assert (decision.sampler_id, decision.reason) == ("uniform", "ERROR")
    assert "on fire" in str(decision.error)
    assert caplog.records == []


def test_a_user_id_that_cannot_be_encoded_gets_the_default_arm_without_noise(
    world: FlagWorld, caplog: pytest.LogCaptureFixture
) -> None:
    decision = decide(world.open(rollout(100)), "\ud800")
    assert (decision.sampler_id, decision.is_exposure) == ("uniform", False)
    assert caplog.records == []


def test_two_instances_keep_their_own_providers(world: FlagWorld) -> None:
    one, two = in_memory(world, sampler="bolt"), in_memory(world, sampler="aks")
    assert (decide(one).sampler_id, decide(two).sampler_id) == ("bolt", "aks")
