"""GET /v1/samplers."""

from __future__ import annotations

from pathlib import Path

import pytest

from samplers.registry import load_registry
from tests.app.answer_world import build_world, running
from tests.app.rogue_samplers import TARGETS

pytestmark = pytest.mark.anyio


async def test_every_sampler_is_listed_with_its_options(tmp_path: Path) -> None:
    world = build_world(tmp_path / "data", sampler_options={"aks": {"all_depth": 4}})
    async with running(world) as client:
        document = (await client.get("/v1/samplers")).json()
    listed = {sampler["id"]: sampler for sampler in document["samplers"]}
    options = {option["name"]: option for option in listed["aks"]["options"]}

    assert set(listed) == set(load_registry().ids)
    assert all(sampler["is_builtin"] and sampler["doc"] for sampler in listed.values())
    assert (listed["fps"]["fills_budget"], listed["aks"]["fills_budget"]) == (False, True)
    assert (listed["uniform"]["uses_query"], listed["aks"]["uses_query"]) == (False, True)
    assert (options["all_depth"]["value"], options["all_depth"]["default"]) == (4, 5)
    assert options["compat"]["choices"] == ["safe", "upstream"]
    assert document["unavailable"] == []


async def test_an_outside_sampler_is_listed_and_one_that_fails_to_load_is_unavailable(
    tmp_path: Path,
) -> None:
    targets = f"{TARGETS[0]}, nonesuch.module:Sampler"
    world = build_world(tmp_path / "data", extra_samplers=targets)
    async with running(world) as client:
        document = (await client.get("/v1/samplers")).json()
        refused = await client.post(
            "/v1/answers", json={"video_id": "0" * 64, "question": "?", "sampler": "nonesuch"}
        )
    listed = {sampler["id"]: sampler for sampler in document["samplers"]}

    assert listed["first-frames"]["is_builtin"] is False
    [unavailable] = document["unavailable"]
    assert unavailable["id"] == "nonesuch.module:Sampler"
    assert "nonesuch" in unavailable["error"]
    assert refused.json()["type"] == "urn:framegate:problem:unknown-sampler"
