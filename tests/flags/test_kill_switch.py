from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flags.kill_switch import MAX_BYTES, MAX_TEXT_CHARS, FileKillSwitch, KillState


def noon() -> datetime:
    return datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_no_file_means_off(tmp_path: Path) -> None:
    assert FileKillSwitch(tmp_path / "none" / "k.json").read() == KillState(is_on=False)


def test_it_remembers_who_set_it_and_why(tmp_path: Path) -> None:
    switch = FileKillSwitch(tmp_path / "new" / "k.json", clock=noon)
    state = switch.set(is_on=True, who="ann", why="answers look wrong")
    assert state == KillState(True, "ann", "answers look wrong", "2026-11-30T12:00:00.000+00:00")
    assert switch.read() == state


def test_it_survives_a_restart_and_can_be_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    FileKillSwitch(path).set(is_on=True, who="ann", why="test")
    restarted = FileKillSwitch(path)
    assert restarted.read().is_on
    restarted.set(is_on=False, who="bob", why="mended")
    assert not restarted.read().is_on
    assert FileKillSwitch(path).read().who == "bob"


def test_another_process_sees_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    switch = FileKillSwitch(path)
    assert not switch.read().is_on
    code = (
        "import sys; from pathlib import Path; from flags.kill_switch import FileKillSwitch;"
        "FileKillSwitch(Path(sys.argv[1])).set(is_on=True, who='other', why='test')"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert switch.read().who == "other"


def test_quick_changes_are_all_seen(tmp_path: Path) -> None:
    switch, reader = (FileKillSwitch(tmp_path / "k.json") for _ in range(2))
    for turn in range(50):
        switch.set(is_on=turn % 2 == 0, who="ann", why="flip")
        assert reader.read().is_on is (turn % 2 == 0)


@settings(deadline=None)
@given(content=st.binary(max_size=200))
def test_a_file_that_cannot_be_understood_means_on(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("kill") / "k.json"
    path.write_bytes(content)
    state = FileKillSwitch(path).read()
    assert state.is_on
    assert state.who == "framegate"
    assert "broken" in state.why


@pytest.mark.parametrize(
    "fields",
    [
        {"is_on": "false", "who": "", "why": "", "at": ""},
        {"is_on": 0, "who": "", "why": "", "at": ""},
        {"is_on": False, "who": None, "why": "", "at": ""},
        {"is_on": False},
        [],
    ],
)
def test_wrong_fields_mean_on(tmp_path: Path, fields: object) -> None:
    path = tmp_path / "k.json"
    path.write_text(json.dumps(fields))
    assert FileKillSwitch(path).read().is_on


def test_a_folder_in_its_place_means_on(tmp_path: Path) -> None:
    assert FileKillSwitch(tmp_path).read().is_on


def test_a_broken_file_can_be_set_again(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    path.write_text("half writ")
    switch = FileKillSwitch(path)
    assert switch.read().is_on
    switch.set(is_on=False, who="ann", why="mended")
    assert not switch.read().is_on


def test_long_texts_are_cut_so_that_they_can_be_read_back(tmp_path: Path) -> None:
    switch = FileKillSwitch(tmp_path / "k.json")
    switch.set(is_on=True, who="a" * 50_000, why="\x00" * 50_000)
    assert len(switch.read().why) == MAX_TEXT_CHARS
    assert (tmp_path / "k.json").stat().st_size <= MAX_BYTES


def test_a_failed_write_raises_and_leaves_the_old_state_and_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    path.mkdir()
    with pytest.raises(OSError, match=r"k\.json"):
        FileKillSwitch(path).set(is_on=False, who="ann", why="test")
    assert list(tmp_path.iterdir()) == [path]
