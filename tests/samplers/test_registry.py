from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from samplers.contract import InvalidOptionsError, Sampler
from samplers.registry import (
    BUILT_IN,
    DuplicateSamplerError,
    UnknownSamplerError,
    load_registry,
)
from samplers.testing import check_sampler
from tests.samplers.plugins import install, write_module, write_plugin

ROOT = Path(__file__).resolve().parents[2]


def test_every_line_of_the_table_is_available_under_its_id() -> None:
    registry = load_registry()
    assert registry.ids[: len(BUILT_IN)] == tuple(BUILT_IN)
    for sampler_id, target in BUILT_IN.items():
        entry = registry.get(sampler_id)
        assert (entry.id, entry.target, entry.is_builtin) == (sampler_id, target, True)
        assert entry.version
        assert entry.doc


def test_every_option_of_a_built_in_has_a_default_and_a_doc() -> None:
    registry = load_registry()
    for sampler_id in BUILT_IN:
        for option in registry.get(sampler_id).options:
            assert option.doc, f"{sampler_id}.{option.name} has no doc"


def test_only_fps_and_gens_of_the_built_ins_leave_budget_unfilled() -> None:
    registry = load_registry()
    assert [i for i in BUILT_IN if not registry.get(i).fills_budget] == ["fps", "gens"]


def test_build_validates_options_and_passes_the_encoder() -> None:
    registry = load_registry()
    sampler = registry.build("bolt", {"power": 2}, encoder="siglip")
    assert isinstance(sampler, Sampler)
    assert (sampler.encoder, sampler.id) == ("siglip", "bolt")
    with pytest.raises(InvalidOptionsError, match="'pover'"):
        registry.build("bolt", {"pover": 2}, encoder="siglip")


@pytest.mark.parametrize("sampler_id", list(BUILT_IN))
def test_built_samplers_travel_to_another_process(sampler_id: str) -> None:
    sampler = load_registry().build(sampler_id, {}, encoder="default")
    assert pickle.loads(pickle.dumps(sampler)) == sampler


def test_an_unknown_id_names_the_ids_that_exist() -> None:
    with pytest.raises(UnknownSamplerError, match=r"no sampler 'askk'.*uniform") as caught:
        load_registry().get("askk")
    assert isinstance(caught.value, LookupError)


def test_a_class_named_by_the_operator_is_an_outside_sampler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write_plugin(tmp_path, "operator_plugin", "first-frames")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = load_registry([target])
    entry = registry.get("first-frames")
    assert not entry.is_builtin
    assert [(o.name, o.type_name, o.default, o.doc) for o in entry.options] == [
        ("skip", "integer", 0, "candidates to pass over")
    ]
    check_sampler(entry.sampler_class)


def test_an_entry_point_of_an_installed_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write_plugin(tmp_path, "installed_plugin", "installed-first")
    install(tmp_path, "installed_plugin", {"installed-first": target})
    monkeypatch.syspath_prepend(str(tmp_path))
    # Named by the operator as well, it is still one sampler.
    registry = load_registry([target])
    assert registry.ids == (*BUILT_IN, "installed-first")
    assert registry.unavailable == {}


def test_an_id_that_is_claimed_twice_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write_plugin(tmp_path, "claims_uniform", "uniform")
    install(tmp_path, "claims_uniform", {"uniform": target})
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DuplicateSamplerError, match=r"claims_uniform:FirstFrames.*'uniform'"):
        load_registry()


def test_two_outside_samplers_of_one_id_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [write_plugin(tmp_path, f"twin_{n}", "twin") for n in ("a", "b")]
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DuplicateSamplerError, match="'twin'"):
        load_registry(targets)


BROKEN = {
    "needs_missing": "import a_package_that_is_not_there\n",
    "bad_syntax": "def (:\n",
    "exits": "raise SystemExit(3)\n",
    "raises": "raise RuntimeError('no GPU here')\n",
    "no_class": "x = 1\n",
    "no_options": """
        class FirstFrames:
            id = "no-options"
            version = "1"
            fills_budget = True
            uses_query = False
    """,
    "no_select": """
        from samplers.contract import SamplerOptions

        class FirstFrames:
            id = "no-select"
            version = "1"
            fills_budget = True
            uses_query = False
            Options = SamplerOptions
    """,
    "no_id": "class FirstFrames:\n    pass\n",
}


@pytest.mark.parametrize("module", list(BROKEN))
def test_an_outside_package_that_fails_to_load_is_listed_and_stops_nothing(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(tmp_path, f"broken_{module}", BROKEN[module])
    good = write_plugin(tmp_path, f"beside_{module}", "beside-broken")
    install(
        tmp_path,
        f"broken_{module}",
        {"broken-one": f"broken_{module}:FirstFrames", "beside-broken": good},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = load_registry()
    assert registry.ids == (*BUILT_IN, "beside-broken")
    assert list(registry.unavailable) == ["broken-one"]
    error = registry.unavailable["broken-one"]
    assert "Error: " in error or module == "exits"
    assert registry.why_missing("broken-one") == f"it failed to load: {error}"
    assert registry.why_missing("beside-broken") is None
    assert registry.why_missing("never-installed") is None


@pytest.mark.parametrize("sampler_id", ["off", "", "Has Space", "9lives", "a" * 65])
def test_an_id_that_cannot_be_a_flag_value_is_unavailable(
    sampler_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"bad_id_{len(sampler_id)}_{sampler_id[:1].lower()}"
    target = write_plugin(tmp_path, module, sampler_id)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = load_registry([target])
    assert "cannot be a flag value" in registry.unavailable[target]


@pytest.mark.parametrize("target", ["no-colon", ":NoModule", "no_class:", "nowhere.at.all:X"])
def test_a_target_that_names_no_class_is_unavailable(target: str) -> None:
    registry = load_registry([target])
    assert registry.ids == tuple(BUILT_IN)
    assert list(registry.unavailable) == [target]
    reason = registry.why_missing("nobody-knows") or ""
    assert (target in reason) == (":" in target)
    assert registry.why_missing("off") is registry.why_missing("aks") is None


def test_every_entry_imports_and_selects_where_no_model_runtime_can_be_imported() -> None:
    script = dedent(
        """
        import sys
        for name in ("torch", "vllm", "transformers", "open_clip", "tokenizers"):
            sys.modules[name] = None
        from samplers.registry import BUILT_IN, load_registry
        from samplers.testing import InMemoryScorer, make_video
        registry = load_registry()
        video = make_video(50)
        for sampler_id in BUILT_IN:
            sampler = registry.build(sampler_id, {}, encoder="default", scorer=InMemoryScorer())
            assert sampler.select(video, "q", 8, None), sampler_id
        print(" ".join(BUILT_IN))
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list(BUILT_IN)
