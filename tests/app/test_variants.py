"""Variants of samplers through a whole gateway: served, dealt, compared, recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from shadow.records import ComparisonRecord
from tests.app.answer_world import (
    AnswerWorld,
    IndexedData,
    ask,
    assert_problem,
    build_world,
    post,
    put_flags,
    running,
)
from tests.app.rogue_samplers import TARGETS
from tests.app.shadow_world import comparisons, shadow_flags, shadow_world
from tests.app.shadow_world import until as eventually
from tests.app.test_rollouts_api import BEGUN_S, BY, QUICK, URL, command, sampler_of, start, until
from tests.flags.flag_files import serving

pytestmark = pytest.mark.anyio

DEEP = "aks@all_depth=0,t2=1"
"""The highest scores wherever they lie: other frames than `aks` chooses."""
OPTIONS: dict[str, dict[str, Any]] = {
    "aks": {"t1": 0.7},
    DEEP: {},
    "aks@sharp": {"t1": 0.2},
}
SHARPER = OPTIONS | {"aks@sharp": {"t1": 0.3}}


def make(tmp_path: Path, indexed: IndexedData, **settings: Any) -> AnswerWorld:
    fields = {"sampler_options": OPTIONS, "rollout_tick_s": 0.05, **settings}
    return build_world(tmp_path / "data", indexed, **fields)


def frames(answer: Mapping[str, Any]) -> list[int]:
    return [frame["index"] for frame in answer["evidence"]["frames"]]


def versions(world: AnswerWorld, *sampler_ids: str) -> list[str]:
    return [world.gateway.base.table.version(sampler_id) for sampler_id in sampler_ids]


async def test_a_flag_serves_a_variant_and_the_evidence_says_which(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    put_flags(world.settings.flags_path, serving(DEEP))
    async with running(world) as client:
        by_variant = await ask(client, indexed.long_id)
        by_base = await ask(client, indexed.long_id, sampler="aks")
        counted = world.counted("framegate_sampler_selections_total", sampler=DEEP)
    used = by_variant["evidence"]["sampler"]

    assert (used["id"], used["reason"], used["fallback"]) == (DEEP, "STATIC", None)
    assert used["version"].startswith("1+")
    assert used["options"] == by_base["evidence"]["sampler"]["options"] | {
        "all_depth": 0,
        "t2": 1.0,
    }
    assert used["options"]["t1"] == 0.7
    assert frames(by_variant) != frames(by_base)
    assert counted == 1


async def test_an_operator_may_name_a_variant_and_none_that_is_not_there(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(make(tmp_path, indexed)) as client:
        named = await ask(client, indexed.short_id, sampler="aks@sharp")
        refused = await post(client, indexed.short_id, sampler="aks@t1=0.3")
    used = named["evidence"]["sampler"]

    assert (used["id"], used["reason"], used["options"]["t1"]) == ("aks@sharp", "OVERRIDE", 0.2)
    assert_problem(refused, 422, "unknown-sampler")


async def test_the_ledger_s_row_names_the_variant_its_version_and_its_options(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    put_flags(world.settings.flags_path, serving(DEEP))
    async with running(world) as client:
        answer = await ask(client, indexed.long_id)
        used = answer["evidence"]["sampler"]
        await asyncio.to_thread(world.gateway.ledger.writer.flush, 5.0)
        [row] = world.gateway.ledger.ledger.selections_of(answer["answer_id"])

    assert (row.decided_sampler_id, row.sampler_id) == (DEEP, DEEP)
    assert row.decided_sampler_version == row.sampler_version == used["version"]
    assert row.sampler_options == used["options"]


async def test_a_variant_of_an_outside_sampler_runs_in_its_process_with_its_options(
    tmp_path: Path, indexed: IndexedData
) -> None:
    options: dict[str, dict[str, Any]] = {"first-frames@skip=3": {}}
    world = make(tmp_path, indexed, sampler_options=options, extra_samplers=TARGETS[0])
    async with running(world) as client:
        by_base = await ask(client, indexed.long_id, sampler="first-frames", budget=4)
        by_variant = await ask(client, indexed.long_id, sampler="first-frames@skip=3", budget=4)

    assert by_variant["evidence"]["sampler"]["id"] == "first-frames@skip=3"
    assert frames(by_variant)[0] == frames(by_base)[3]


async def test_variants_are_listed_behind_their_sampler(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    async with running(world) as client:
        document = (await client.get("/v1/samplers")).json()
    listed = {sampler["id"]: sampler for sampler in document["samplers"]}
    ids = list(listed)
    values = {option["name"]: option["value"] for option in listed[DEEP]["options"]}

    assert ids[ids.index("aks") :][:3] == ["aks", DEEP, "aks@sharp"]
    assert (listed["aks"]["base"], listed["aks"]["variants"]) == (None, [DEEP, "aks@sharp"])
    assert (listed[DEEP]["base"], listed[DEEP]["variants"]) == ("aks", [])
    assert [listed[one]["version"] for one in ("aks", DEEP)] == versions(world, "aks", DEEP)
    assert (values["all_depth"], values["t1"]) == (0, 0.7)


async def test_a_variant_is_rolled_out_against_its_base_to_the_end(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    async with running(world) as client:
        started = await start(client, candidate=DEEP, dwell_s=0)
        await asyncio.sleep(BEGUN_S)
        dealt = {(await sampler_of(client, indexed, f"u{n}"))["id"] for n in range(24)}
        await until(lambda rollout: bool(rollout["stage"] == 2), client)
        await asyncio.sleep(BEGUN_S)
        after = {(await sampler_of(client, indexed, f"u{n}"))["id"] for n in range(24)}
        completed = await until(lambda rollout: bool(rollout["state"] == "completed"), client)
        anyone = (await ask(client, indexed.short_id))["evidence"]["sampler"]

    facts = started["facts"]
    found = [facts["candidate_version"], facts["control_version"]]
    assert (started["candidate"], started["control"]) == (DEEP, "aks")
    assert found == versions(world, DEEP, "aks")
    assert dealt == {"aks", DEEP}
    assert after == {DEEP}
    assert completed["flags"] == f"Everyone gets `{DEEP}` by the flag file."
    assert anyone["id"] == DEEP


async def test_a_variant_is_rolled_back_and_gone_at_the_next_answer(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    async with running(world) as client:
        rollout_id = (await start(client, candidate=DEEP, stages=[100]))["rollout_id"]
        before = await sampler_of(client, indexed, "u1")
        await command(client, rollout_id, "rollback")
        after = await sampler_of(client, indexed, "u1")

    assert (before["id"], after["id"]) == (DEEP, "aks")
    assert DEEP not in world.settings.flags_path.read_text()


async def test_a_variant_of_the_baseline_needs_no_features_either(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed, sampler_options={"uniform@mode=endpoints": {}})
    async with running(world) as client:
        world.encoder.encoder_id = "fake@00000002"
        refused = await client.post(URL, json=QUICK | {"dwell_s": 3600})
        started = await start(client, candidate="uniform@mode=endpoints")
    assert "lack features" in assert_problem(refused, 409, "rollout-refused")["detail"]
    assert started["state"] == "running"


async def test_one_variant_is_rolled_out_against_another(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = make(tmp_path, indexed)
    put_flags(world.settings.flags_path, serving(DEEP))
    async with running(world) as client:
        started = await start(client, candidate="aks@sharp")
        dealt = {(await sampler_of(client, indexed, f"u{n}"))["id"] for n in range(24)}
    assert (started["candidate"], started["control"]) == ("aks@sharp", DEEP)
    assert dealt == {DEEP, "aks@sharp"}


async def test_other_options_of_the_candidate_begin_a_new_epoch(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(make(tmp_path, indexed)) as client:
        before = await start(client, candidate="aks@sharp")
    changed = make(tmp_path, indexed, sampler_options=SHARPER)
    async with running(changed) as client:
        after = await until(lambda rollout: bool(rollout["epoch"] == 2), client)
        steps = await kinds(client, after["rollout_id"])
    again = make(tmp_path, indexed, sampler_options=SHARPER)
    async with running(again) as client:
        await asyncio.sleep(0.5)
        unchanged = await kinds(client, after["rollout_id"])

    old, new = before["facts"]["candidate_version"], after["facts"]["candidate_version"]
    assert old != new
    assert f"candidate_version {old} → {new}" in after["reason"]
    assert (after["state"], after["facts"]["control_version"]) == (
        "running",
        before["facts"]["control_version"],
    )
    assert steps == unchanged == ["started", "new_epoch"]


async def test_options_that_are_set_while_a_rollout_runs_begin_a_new_epoch_for_their_sampler_alone(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(make(tmp_path, indexed, sampler_options={})) as client:
        before = await start(client)
    declared = make(tmp_path, indexed, sampler_options={"aks@t1=0.2": {}, "bolt": {"power": 0.5}})
    async with running(declared) as client:
        after = await until(lambda rollout: bool(rollout["epoch"] == 2), client)
        steps = await kinds(client, after["rollout_id"])
    versions_before = [before["facts"][f"{arm}_version"] for arm in ("candidate", "control")]

    assert versions_before == ["1", "1"]
    assert after["facts"]["control_version"] == "1"
    assert "candidate_version 1 → 1+" in after["reason"]
    assert steps == ["started", "new_epoch"]


async def kinds(client: httpx.AsyncClient, rollout_id: str) -> list[str]:
    steps = (await client.get(f"{URL}/{rollout_id}/history")).json()["steps"]
    return [step["kind"] for step in steps]


async def test_a_variant_that_is_configured_no_more_is_not_served_and_can_be_rolled_back(
    tmp_path: Path, indexed: IndexedData
) -> None:
    async with running(make(tmp_path, indexed)) as client:
        rollout_id = (await start(client, candidate="aks@sharp", stages=[100]))["rollout_id"]
    without = make(tmp_path, indexed, sampler_options={"aks": {"t1": 0.7}})
    async with running(without) as client:
        gone = await sampler_of(client, indexed, "u1")
        alarm = (await client.get("/readyz")).json()["flags_alarm"]
        await command(client, rollout_id, "rollback")
        after = await sampler_of(client, indexed, "u1")

    assert gone["id"] == "uniform"
    assert "FRAMEGATE_SAMPLER_OPTIONS" in str(alarm)
    assert after["id"] == "aks"


async def test_a_score_is_recorded_for_a_variant_and_for_its_options(
    tmp_path: Path, indexed: IndexedData
) -> None:
    score = {"sampler": "aks@sharp", "score": 0.7, "dataset": "ours", "num_questions": 200, **BY}
    guards = {"candidate": "aks@sharp", "guards": ["offline_score>=60%", "fallback<=5%"]}
    world = make(tmp_path, indexed)
    async with running(world) as client:
        recorded = (await client.post("/v1/offline-scores", json=score)).json()
    changed = make(tmp_path, indexed, sampler_options=SHARPER)
    async with running(changed) as client:
        refused = await client.post(URL, json=QUICK | guards)
    async with running(make(tmp_path, indexed)) as client:
        started = await start(client, **guards)

    assert (recorded["sampler"], [recorded["version"]]) == (
        "aks@sharp",
        versions(world, "aks@sharp"),
    )
    problem = assert_problem(refused, 409, "rollout-refused")
    assert "framegate rollout score aks@sharp" in problem["detail"]
    assert started["candidate"] == "aks@sharp"


async def test_a_variant_in_the_shadow_of_its_base_chooses_other_frames(
    tmp_path: Path, indexed: IndexedData
) -> None:
    flags = shadow_flags("aks", DEEP)
    world = shadow_world(tmp_path, indexed, flags, sampler_options=OPTIONS)
    async with running(world) as client:
        answer = await ask(client, indexed.long_id)
        by_variant = await ask(client, indexed.long_id, sampler=DEEP)
        [line, *_] = await comparisons(world)
        record = await first_record(world)
        parameters = {"sampler": DEEP, "format": "json", "since": "1h"}
        report = await client.get("/v1/shadow/report", params=parameters)
        counted = world.counted("framegate_shadow_comparisons_total", sampler=DEEP, kind="sampler")
    control, shadow = line["control"], line["shadow"]

    assert (control["sampler_id"], shadow["sampler_id"]) == ("aks", DEEP)
    assert [control["sampler_version"], shadow["sampler_version"]] == versions(world, "aks", DEEP)
    assert shadow["sampler_options"]["all_depth"] == 0
    assert control["indices"] == frames(answer)
    assert shadow["indices"] == frames(by_variant) != frames(answer)
    assert line["overlap_exact"] < 1
    assert (record.control.sampler_id, record.shadow.sampler_id) == ("aks", DEEP)
    assert counted == 1
    assert [pair["shadow"]["id"] for pair in report.json()["pairs"]] == [DEEP]


async def first_record(world: AnswerWorld) -> ComparisonRecord:
    ledger = world.gateway.ledger.ledger
    await eventually(lambda: ledger.comparisons(0.0, 1e12) != [])
    return ledger.comparisons(0.0, 1e12)[0]
