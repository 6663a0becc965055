"""The `framegate` command, run as users run it, against a real server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.settings import ENV_PREFIX
from tests.app.answer_world import (
    QUESTION,
    AnswerWorld,
    IndexedData,
    build_world,
    serving,
    write_colours,
)
from tests.app.rogue_samplers import TARGETS
from tests.flags.flag_files import document, flag, split
from tests.flags.flag_files import serving as serving_sampler

Run = subprocess.CompletedProcess[str]


class CommandLine:
    """Runs `framegate` on one data folder."""

    def __init__(self, data_dir: Path) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX)}
        self.environment = kept | {
            "FRAMEGATE_DATA_DIR": str(data_dir),
            "FRAMEGATE_PORT": "9",  # Where nobody listens.
            "COLUMNS": "200",
        }

    def __call__(self, *arguments: str) -> Run:
        return subprocess.run(
            [sys.executable, "-m", "app.cli", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed, extra_samplers="nonesuch.module:Sampler")


@pytest.fixture
def framegate(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "data")


@pytest.fixture
def connected(world: AnswerWorld, framegate: CommandLine) -> Iterator[CommandLine]:
    with serving(world) as address:
        framegate.environment["FRAMEGATE_PORT"] = address.rpartition(":")[2]
        yield framegate


def failed(run: Run) -> str:
    """The one line that says what to do."""
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert run.stdout == ""
    return run.stderr


def test_a_file_is_uploaded_indexed_and_asked_about(connected: CommandLine, tmp_path: Path) -> None:
    write_colours(tmp_path / "new.mp4", 3.0)
    run = connected("ask", str(tmp_path / "new.mp4"), QUESTION, "--budget", "2")

    assert run.returncode == 0, run.stderr
    assert "two cats" in run.stdout
    assert "2 frames, limited by request" in run.stdout
    assert re.search(r"^frames +\d\.\d\d s, \d\.\d\d s", run.stdout, re.MULTILINE)


def test_a_known_video_is_asked_about_and_printed_as_json(
    connected: CommandLine, indexed: IndexedData
) -> None:
    run = connected("ask", indexed.short_id, QUESTION, "--json", "--sampler", "bolt")
    answer: dict[str, Any] = json.loads(run.stdout)

    assert run.returncode == 0
    assert answer["answer"] == "two cats"
    assert answer["evidence"]["sampler"]["reason"] == "OVERRIDE"


def test_a_refusal_says_what_to_do(connected: CommandLine, indexed: IndexedData) -> None:
    unknown_sampler = connected("ask", indexed.short_id, QUESTION, "--sampler", "nonesuch")
    unknown_video = connected("ask", "no-such-file.mp4", QUESTION)

    assert "GET /v1/samplers lists the ids" in failed(unknown_sampler)
    assert "neither a file nor a video_id" in failed(unknown_video)


def test_videos_and_samplers_are_listed(connected: CommandLine, indexed: IndexedData) -> None:
    videos, samplers = connected("videos"), connected("samplers")
    documents = [json.loads(connected(name, "--json").stdout) for name in ("videos", "samplers")]

    assert indexed.short_id in videos.stdout
    assert "ready" in videos.stdout
    assert "aks" in samplers.stdout
    assert connected("samplers", "list").stdout == samplers.stdout
    assert "unavailable nonesuch.module:Sampler" in samplers.stdout
    assert "not to be served here: " in samplers.stdout
    assert "FRAMEGATE_SCORER_URL" in samplers.stdout
    assert len(documents[0]["videos"]) == 2
    assert "uniform" in {sampler["id"] for sampler in documents[1]["samplers"]}


def test_a_server_that_is_down_is_said_with_the_way_out(framegate: CommandLine) -> None:
    run = framegate("videos", "--server", "http://127.0.0.1:9")
    assert "Start the service with `framegate serve`" in failed(run)


def test_a_good_flag_file_has_no_findings(framegate: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "flags.json"
    path.write_text(json.dumps(serving_sampler("bolt")))
    run = framegate("flags", "check", str(path))
    assert (run.returncode, "no findings" in run.stdout) == (0, True)


def test_a_bad_flag_file_is_found_out(framegate: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "flags.json"
    rule = split("10")
    path.write_text(json.dumps(document(flag("bolt", "uniform", rule=rule))))
    run = framegate("flags", "check", str(path))

    assert run.returncode == 1
    assert "weight" in run.stdout


def test_a_flag_file_that_serves_what_lacks_a_model_is_warned_of(
    framegate: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "flags.json"
    path.write_text(json.dumps(serving_sampler("m-llm")))
    without = framegate("flags", "check", str(path))
    framegate.environment |= {
        "FRAMEGATE_SCORER_URL": "http://scorer.example",
        "FRAMEGATE_SCORER_MODEL": "vlm",
    }
    with_model = framegate("flags", "check", str(path))

    assert (without.returncode, with_model.returncode) == (0, 0)
    assert "FRAMEGATE_SCORER_URL" in without.stdout
    assert "no findings" in with_model.stdout


def test_a_flag_file_may_name_an_outside_sampler(framegate: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "flags.json"
    path.write_text(json.dumps(serving_sampler("first-frames")))
    unknown = framegate("flags", "check", str(path))
    framegate.environment["FRAMEGATE_EXTRA_SAMPLERS"] = TARGETS[0]
    known = framegate("flags", "check", str(path))

    assert (unknown.returncode, known.returncode) == (1, 0)


def test_the_check_says_how_an_outside_sampler_failed_to_load(
    framegate: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "flags.json"
    path.write_text(json.dumps(serving_sampler("first-frames")))
    framegate.environment["FRAMEGATE_EXTRA_SAMPLERS"] = "nonesuch.module:FirstFrames"
    run = framegate("flags", "check", str(path))

    assert run.returncode == 1
    assert "failed to load: nonesuch.module:FirstFrames (ModuleNotFoundError" in run.stdout


def test_a_flag_file_that_is_not_there_is_an_error(framegate: CommandLine) -> None:
    assert "cannot be read" in failed(framegate("flags", "check", "/nonesuch.json"))


def test_a_flag_file_that_never_ends_is_refused(framegate: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(b" " * 1_000_001)
    assert "not a regular file" in failed(framegate("flags", "check", "/dev/zero"))
    assert "larger than" in failed(framegate("flags", "check", str(tmp_path / "large.json")))


def test_a_listed_video_id_is_whole_on_a_narrow_terminal(
    connected: CommandLine, indexed: IndexedData
) -> None:
    connected.environment["COLUMNS"] = "60"
    assert indexed.short_id in connected("videos").stdout


def test_the_kill_switch_works_while_the_service_is_down(
    framegate: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    assert framegate("kill-switch", "status").stdout.startswith("Kill switch off.")
    set_on = framegate("kill-switch", "on", "--why", "worse", "--who", "ana")
    assert "ON" in set_on.stdout
    assert "none answers at http://127.0.0.1:9" in set_on.stdout
    assert "ana worse" in framegate("kill-switch", "status").stdout
    assert framegate("kill-switch", "off", "--why", "better").returncode == 0
    assert framegate("kill-switch", "status").stdout.startswith("Kill switch off.")


def test_the_kill_switch_of_the_command_line_decides_the_next_answer(
    connected: CommandLine, indexed: IndexedData
) -> None:
    connected("kill-switch", "on", "--why", "worse")
    run = connected("ask", indexed.short_id, QUESTION, "--json")
    assert json.loads(run.stdout)["evidence"]["sampler"]["reason"] == "KILL_SWITCH"


def test_a_kill_switch_that_no_service_looks_at_is_an_error(
    connected: CommandLine, tmp_path: Path
) -> None:
    connected.environment["FRAMEGATE_DATA_DIR"] = str(tmp_path / "elsewhere")
    assert "does not exist" in failed(connected("kill-switch", "on", "--why", "worse"))

    (tmp_path / "elsewhere").mkdir()
    refused = failed(connected("kill-switch", "on", "--why", "worse"))
    assert "works on another data folder" in refused
    assert "works on another data folder" in failed(connected("kill-switch", "status"))


def test_a_kill_switch_that_cannot_be_written_is_one_line(
    framegate: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "data" / "kill-switch.json").mkdir(parents=True)
    run = framegate("kill-switch", "on", "--why", "worse")
    assert "is as it was" in failed(run)


@pytest.mark.parametrize("workers", ["2", "0"])
def test_more_than_one_gateway_is_refused_with_the_reason(
    framegate: CommandLine, workers: str
) -> None:
    assert "one gateway process" in failed(framegate("serve", "--workers", workers))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SAMPLER_OPTIONS", '{"aks": {"t1": "high"}}', "t1"),
        ("SAMPLER_OPTIONS", '{"nonesuch": {}}', "no sampler 'nonesuch'"),
        ("EXTRA_SAMPLERS", "samplers.aks:AksSampler", "aks"),
    ],
)
def test_samplers_that_stop_the_gateway_stop_the_start(
    framegate: CommandLine, name: str, value: str, words: str
) -> None:
    framegate.environment[f"FRAMEGATE_{name}"] = value
    assert words in failed(framegate("serve", "--port", "0"))


def test_a_bad_setting_is_one_line(framegate: CommandLine) -> None:
    assert "FRAMEGATE_PORT" in failed(framegate("serve", "--port", "99999"))
    framegate.environment["FRAMEGATE_POTR"] = "1"
    assert "did you mean FRAMEGATE_PORT?" in failed(framegate("videos"))
