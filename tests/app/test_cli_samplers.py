"""`framegate samplers list` and `show`, and `flags check` with variants, run as users run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.answer_world import QUESTION, IndexedData, build_world, serving
from tests.app.rogue_samplers import TARGETS
from tests.app.test_cli import CommandLine, failed
from tests.flags.flag_files import put
from tests.flags.flag_files import serving as serving_sampler

OPTIONS = {"aks": {"all_depth": 4}, "aks@t1=0.2": {}}


@pytest.fixture
def framegate(tmp_path: Path) -> CommandLine:
    command_line = CommandLine(tmp_path / "data")
    command_line.environment["FRAMEGATE_SAMPLER_OPTIONS"] = json.dumps(OPTIONS)
    return command_line


def test_a_sampler_is_shown_with_its_options_and_variants_while_no_service_runs(
    framegate: CommandLine,
) -> None:
    run = framegate("samplers", "show", "aks")
    lines = [line.split() for line in run.stdout.splitlines()]

    assert run.returncode == 0, run.stderr
    assert ["variants", "aks@t1=0.2"] in lines
    assert ["t1", "number", "0.8", "0.8"] in [line[:4] for line in lines]
    assert ["all_depth", "integer", "5", "4"] in [line[:4] for line in lines]
    assert ["compat", "safe", "|", "upstream", "safe"] in [line[:5] for line in lines]
    assert "most halvings, 0 to 10" in run.stdout


def test_a_variant_is_shown_with_its_base_and_its_values(framegate: CommandLine) -> None:
    run = framegate("samplers", "show", "aks@t1=0.2")
    document = json.loads(framegate("samplers", "show", "aks@t1=0.2", "--json").stdout)
    values = {option["name"]: option["value"] for option in document["options"]}

    assert ["variant", "of", "aks"] in [line.split() for line in run.stdout.splitlines()]
    assert (document["base"], values["t1"], values["all_depth"]) == ("aks", 0.2, 4)


def test_a_sampler_without_options_says_so(framegate: CommandLine) -> None:
    framegate.environment["FRAMEGATE_EXTRA_SAMPLERS"] = TARGETS[1]
    assert "no options" in framegate("samplers", "show", "raising").stdout


def test_a_sampler_that_is_not_there_or_failed_to_load_is_an_error(framegate: CommandLine) -> None:
    framegate.environment["FRAMEGATE_EXTRA_SAMPLERS"] = "nonesuch.module:Sampler"
    unknown = failed(framegate("samplers", "show", "aks@t1=0.3"))
    unavailable = failed(framegate("samplers", "show", "nonesuch.module:Sampler"))

    assert "no sampler 'aks@t1=0.3'" in unknown
    assert """FRAMEGATE_SAMPLER_OPTIONS: {"aks@t1=0.3": {}}. Known here:""" in unknown
    assert "aks@t1=0.2" in unknown
    assert "failed to load: ModuleNotFoundError" in unavailable
    assert "Failed to load: nonesuch.module:Sampler: ModuleNotFoundError" in unknown


def test_a_wrong_variant_is_one_line(framegate: CommandLine) -> None:
    framegate.environment["FRAMEGATE_SAMPLER_OPTIONS"] = '{"aks@t1=high": {}}'
    for command in (("samplers", "show", "aks"), ("serve", "--port", "0")):
        assert "variant 'aks@t1=high': option 't1' must be number" in failed(framegate(*command))


def test_with_a_server_its_samplers_are_shown(
    tmp_path: Path, indexed: IndexedData, framegate: CommandLine
) -> None:
    world = build_world(tmp_path / "data", indexed, sampler_options={"aks@t1=0.3": {}})
    with serving(world) as address:
        there = framegate("samplers", "show", "aks@t1=0.3", "--server", address)
        listed = framegate("samplers", "list", "--server", address)
    here = framegate("samplers", "show", "aks@t1=0.3")

    assert there.returncode == 0, there.stderr
    assert "aks@t1=0.3, version 1+" in there.stdout
    assert "aks@t1=0.3" in listed.stdout
    assert "no sampler" in failed(here)


def test_no_id_is_cut_where_the_terminal_is_narrow(
    tmp_path: Path, indexed: IndexedData, framegate: CommandLine
) -> None:
    long_id = "aks@t1=0.25,t2=-100.0,all_depth=3,scene_hints=false,compat=safe"
    world = build_world(tmp_path / "data", indexed, sampler_options={long_id: {}})
    framegate.environment["COLUMNS"] = "80"
    with serving(world) as address:
        framegate.environment["FRAMEGATE_PORT"] = address.rpartition(":")[2]
        listed = framegate("samplers")
        ids = f"{long_id},frame-voyager-lite"
        compared = framegate("samplers", "compare", indexed.short_id, QUESTION, "--samplers", ids)
    for run in (listed, compared):
        assert run.returncode == 0, run.stderr
        first_words = [line.split()[0] for line in run.stdout.splitlines() if line.strip()]
        assert {long_id, "frame-voyager-lite"} <= set(first_words)
        assert "…" not in run.stdout
    assert {"oracle=cached,", "closed_first=relevance"} <= set(listed.stdout.split())


def test_an_id_with_signs_of_its_own_reaches_the_service_as_it_is(
    tmp_path: Path, indexed: IndexedData, framegate: CommandLine
) -> None:
    odd = "aks@t1=1e+0,all_depth=3"
    by = ("--who", "ana", "--why", "a test")
    score = ("rollout", "score", odd, "0.7", "--dataset", "ours", "--questions", "200", *by)
    with serving(build_world(tmp_path / "data", indexed, sampler_options={odd: {}})) as address:
        framegate.environment["FRAMEGATE_PORT"] = address.rpartition(":")[2]
        asked = framegate("ask", indexed.short_id, QUESTION, "--sampler", odd, "--json")
        reported = framegate("shadow", "report", "--sampler", odd, "--json")
        not_there = framegate("shadow", "report", "--sampler", "aks@t1=1e 0,all_depth=3")
        scored = framegate(*score)
        started = framegate("rollout", "start", odd, *by, "--guard", "offline_score>=60%")

    assert json.loads(asked.stdout)["evidence"]["sampler"]["id"] == odd
    assert reported.returncode == 0, reported.stderr
    assert "no sampler 'aks@t1=1e 0,all_depth=3'" in failed(not_there)
    assert scored.returncode == 0, scored.stderr
    assert f"Started: {odd} for 1 % of the users, aks for the others." in started.stdout


def test_a_flag_file_may_serve_a_variant_that_is_declared(
    framegate: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "flags.json"
    put(path, serving_sampler("aks@t1=0.2"))
    declared = framegate("flags", "check", str(path))
    del framegate.environment["FRAMEGATE_SAMPLER_OPTIONS"]
    undeclared = framegate("flags", "check", str(path))

    assert (declared.returncode, undeclared.returncode) == (0, 1)
    said = " ".join(undeclared.stdout.split())
    assert """FRAMEGATE_SAMPLER_OPTIONS: {"aks@t1=0.2": {}}""" in said
