"""An outside author's path: a written package, a clean environment, a flag, an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli_new_sampler import checked_names, write_package
from tests.app.answer_world import put_flags
from tests.app.real_service import running_service
from tests.app.video_world import small_clip
from tests.e2e.clean_environment import CleanEnvironment, this_environment_sees
from tests.flags.flag_files import serving

SAMPLER_ID = "far-peaks"
MODULE = "framegate_far_peaks"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `framegate samplers new far-peaks` writes it."""
    target = tmp_path_factory.mktemp("author") / SAMPLER_ID
    write_package(target, checked_names(SAMPLER_ID, taken=()))
    return target


@pytest.fixture(scope="module")
def environment(package: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    made = CleanEnvironment(tmp_path_factory.mktemp("environment") / "venv")
    made.install(package)
    return made


def test_the_packages_own_tests_pass_where_it_is_installed(
    environment: CleanEnvironment, package: Path
) -> None:
    done = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_nothing_is_installed_where_these_tests_run(environment: CleanEnvironment) -> None:
    assert this_environment_sees("samplers")
    assert not this_environment_sees(MODULE)


def test_its_entry_point_alone_makes_it_known(
    environment: CleanEnvironment, tmp_path: Path
) -> None:
    code = (
        "from samplers.registry import load_registry\n"
        f"entry = load_registry().get({SAMPLER_ID!r})\n"
        "print(entry.target, entry.is_builtin, [option.name for option in entry.options])\n"
    )
    done = environment.run("-c", code, cwd=tmp_path)
    assert done.stdout.strip() == f"{MODULE}:FarPeaksSampler False ['gap_s']", done.stderr


def test_a_flag_sends_an_answer_to_it(environment: CleanEnvironment, tmp_path: Path) -> None:
    content = small_clip(tmp_path / "clip.mp4")
    with running_service(tmp_path / "data", environment.python) as service:
        video_id = service.http.post("/v1/videos", content=content).json()["video_id"]
        before = service.ask(video_id)["sampler"]
        put_flags(service.data_dir / "flags.json", serving(SAMPLER_ID))
        sampler = service.ask(video_id)["sampler"]
        asked = {"question": "Where is it?", "samplers": f"{SAMPLER_ID},aks", "budget": "4"}
        compared = service.http.get(f"/v1/videos/{video_id}/compare", params=asked).json()
        listed = service.http.get("/v1/samplers").json()["samplers"]

    assert before["id"] == "aks"
    assert (sampler["id"], sampler["version"], sampler["fallback"]) == (SAMPLER_ID, "1", None)
    assert sampler["options"] == {"gap_s": 2.0}
    assert [len(one["frames"]) for one in compared["samplers"]] == [4, 4]
    assert [one["is_builtin"] for one in listed if one["id"] == SAMPLER_ID] == [False]
