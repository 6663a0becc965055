"""The flag file's editor: whole or not at all, one at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flags.flag_edit import UneditableFlagsError
from flags.flag_file_editor import FlagFileEditor

HOLDER = """
import sys, time
from pathlib import Path
from flags.flag_file_editor import FlagFileEditor
with FlagFileEditor(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_what_is_written_is_read_and_nothing_else_is_left(tmp_path: Path) -> None:
    editor = FlagFileEditor(tmp_path / "flags.json")
    editor.write(b"1")
    editor.write(b"2")
    assert editor.read() == b"2"
    assert [path.name for path in tmp_path.iterdir()] == ["flags.json"]


def test_the_mode_and_a_symbolic_link_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "flags.json"
    real.write_bytes(b"1")
    real.chmod(0o664)
    link.symlink_to(real)
    FlagFileEditor(link).write(b"2")
    assert link.is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"2", 0o664)


def test_a_missing_or_foreign_thing_is_said(tmp_path: Path) -> None:
    with pytest.raises(UneditableFlagsError, match="no flag file"):
        FlagFileEditor(tmp_path / "flags.json").read()
    with pytest.raises(UneditableFlagsError, match="cannot be read"):
        FlagFileEditor(tmp_path).read()


def test_a_folder_that_cannot_be_written_is_said() -> None:
    editor = FlagFileEditor(Path("/proc/flags.json"))
    with pytest.raises(UneditableFlagsError, match="cannot be written"), editor.locked():
        pass
    with pytest.raises(UneditableFlagsError, match="cannot be written"):
        editor.write(b"1")


def test_the_lock_goes_with_the_process_that_held_it(tmp_path: Path) -> None:
    path = tmp_path / "flags.json"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            (tmp_path / ".flags.json.lock").open("rb") as lock,
            pytest.raises(BlockingIOError),
        ):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(holder.pid, 9)
    with FlagFileEditor(path).locked():
        pass
