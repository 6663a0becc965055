"""`framegate rollout`, run as operators run it, against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli_client import CliError
from app.cli_rollout import id_of
from tests.app.answer_world import AnswerWorld, IndexedData, build_world, serving
from tests.app.test_cli import CommandLine, failed

BY = ("--who", "ana", "--why", "better on our questions")


@pytest.fixture
def world(tmp_path: Path, indexed: IndexedData) -> AnswerWorld:
    return build_world(tmp_path / "data", indexed)


@pytest.fixture
def framegate(world: AnswerWorld, tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path / "data")
    with serving(world) as address:
        command_line.environment["FRAMEGATE_PORT"] = address.rpartition(":")[2]
        yield command_line


def test_a_whole_rollout_is_run_from_the_command_line(framegate: CommandLine) -> None:
    before = framegate("rollout", "status")
    started = framegate("rollout", "start", "bolt", "--stages", "1,25", "--dwell", "2h", *BY)
    status = framegate("rollout", "status")
    advanced = framegate("rollout", "advance", *BY)
    rolled_back = framegate("rollout", "rollback", "--who", "bo", "--why", "looks [odd]")
    history = framegate("rollout", "history")
    listed = framegate("rollout", "list")

    assert "There was no rollout yet" in failed(before)
    assert started.returncode == 0, started.stderr
    assert "Started: bolt for 1 % of the users, aks for the others." in started.stdout
    assert "Next:   Goes to 25 % by itself; waits for the dwell time of 2 h" in started.stdout
    assert "RUNNING  bolt against aks" in status.stdout
    assert "[1] → 25 %" in status.stdout
    assert "sampler_failure<=1%" in status.stdout
    assert "0 users and 0 answers" in status.stdout
    assert "Advanced: bolt from 1 to 25 % of the users." in advanced.stdout
    assert "framegate rollout advance" in advanced.stdout
    assert "Rolled back from 25 %: the next answer obeys." in rolled_back.stdout
    assert "Everyone gets `aks` by the flag file." in rolled_back.stdout
    for said in ("started", "advanced", "rolled back", "25 % → 0 %", "looks [odd]"):
        assert said in history.stdout
    assert "rolled back" in listed.stdout


def test_documents_are_printed_for_programs(framegate: CommandLine) -> None:
    started = json.loads(framegate("rollout", "start", "bolt", *BY, "--json").stdout)
    status = json.loads(framegate("rollout", "status", "--json").stdout)
    history = json.loads(framegate("rollout", "history", "--json").stdout)

    assert started["rollout_id"] == status["rollout_id"]
    assert [step["kind"] for step in history["steps"]] == ["started"]


def test_what_cannot_be_is_said_with_the_way_out(framegate: CommandLine) -> None:
    twice = framegate("rollout", "start", "aks", *BY)
    guard = framegate("rollout", "start", "bolt", "--guard", "speed<=1", *BY)
    typo = framegate("rollout", "start", "bolt", "--guard", "sampler_failur<=1%", *BY)
    stages = framegate("rollout", "start", "bolt", "--stages", "few,many", *BY)
    dwell = framegate("rollout", "start", "bolt", "--dwell", "soon", *BY)

    assert "Everyone gets `aks` already" in failed(twice)
    assert "no figure `speed`" in failed(guard)
    assert "Did you mean `sampler_failure<=1%`?\n" in failed(typo)
    assert "write whole percents" in failed(stages)
    assert "write 45s, 30m, 1h or 2d" in failed(dwell)


def test_a_refusal_is_a_list_of_whole_sentences(framegate: CommandLine) -> None:
    ladder = framegate("rollout", "start", "aks", "--stages", "50,10", *BY)
    framegate("rollout", "start", "bolt", *BY)
    framegate("rollout", "rollback", *BY)
    again = framegate("rollout", "rollback", *BY)

    title, *reasons = failed(ladder).splitlines()
    assert title == "Error: The rollout cannot do this now:"
    assert [reason[:2] for reason in reasons] == ["- ", "- "]
    assert all(reason.endswith(".") for reason in reasons)
    assert "It is rolled back already." in failed(again)
    assert "send the command again" not in failed(again) + failed(ladder)


def test_a_field_that_is_refused_has_the_name_of_its_option(framegate: CommandLine) -> None:
    run = framegate(
        "rollout", "start", "bolt", "--min-users", "0", "--min-exposures", "0", "--dwell", "900d",
        *BY,
    )  # fmt: skip
    _, *reasons = failed(run).splitlines()
    assert sorted(reason.partition(":")[0] for reason in reasons) == [
        "- --dwell",
        "- --min-exposures",
        "- --min-users",
    ]
    assert "body." not in failed(run)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "--who and --why"),
        (("--who", "ana"), "Say --why:"),
        (("--who", " ", "--why", " "), "--who and --why"),
    ],
)
def test_who_and_why_are_asked_for_at_once(
    framegate: CommandLine, given: tuple[str, ...], said: str
) -> None:
    assert said in failed(framegate("rollout", "start", "bolt", *given))
    assert "There was no rollout yet" in failed(framegate("rollout", "status"))


def test_a_rollout_is_found_by_the_beginning_of_its_id(framegate: CommandLine) -> None:
    made = json.loads(framegate("rollout", "start", "bolt", *BY, "--json").stdout)
    rollout_id = made["rollout_id"]

    assert rollout_id in framegate("rollout", "status", "--id", rollout_id[:5]).stdout
    assert "`framegate rollout list`" in failed(framegate("rollout", "status", "--id", "zz"))


def test_a_beginning_of_several_ids_is_not_enough() -> None:
    with pytest.raises(CliError, match="begins ab1, ab2: write more"):
        id_of("ab", ["ab1", "ab2", "c"])
    assert id_of("ab1", ["ab1", "ab12"]) == "ab1"


def test_a_rollback_that_nobody_answers_names_the_other_ways_back(tmp_path: Path) -> None:
    said = failed(CommandLine(tmp_path)("rollout", "rollback", *BY))
    assert "the flag file" in said
    assert "framegate kill-switch on" in said


def test_the_kill_switch_tells_what_the_flags_do_then(framegate: CommandLine) -> None:
    framegate("rollout", "start", "bolt", "--stages", "50", *BY)
    on = framegate("kill-switch", "on", "--why", "smoke")
    off = framegate("kill-switch", "off", "--why", "no smoke")
    assert "its users get `bolt` again as soon as the switch is off" in on.stdout
    assert "who get `bolt` again from now on: `framegate rollout rollback` if" in off.stdout


def test_a_blank_reason_does_not_set_the_kill_switch(framegate: CommandLine) -> None:
    assert "Say --why" in failed(framegate("kill-switch", "on", "--why", " "))
    assert framegate("kill-switch", "status").stdout.startswith("Kill switch off.")


def test_an_offline_score_is_recorded(framegate: CommandLine) -> None:
    run = framegate(
        "rollout", "score", "bolt", "0.61", "--dataset", "ours", "--questions", "200", *BY
    )
    other = framegate(
        "rollout", "score", "aks", "0.58", "--dataset", "ours", "--questions", "200", *BY
    )
    assert "Recorded: bolt" in run.stdout
    assert "No offline score is recorded for aks: `framegate rollout score aks" in run.stdout
    assert "Next:     framegate rollout start bolt … --guard 'offline_score>=1x'" in other.stdout
