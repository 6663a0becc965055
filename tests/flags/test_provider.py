from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import TypeMismatchError

from flags.provider import DEFAULT_FLAGS_PATH, AlarmKind, FlagFileConfig, build_provider
from tests.flags.flag_files import KNOWN, FlagWorld, decide, put, rollout, serving

SHIPPED = DEFAULT_FLAGS_PATH.read_bytes()


@contextmanager
def fresh_world() -> Iterator[FlagWorld]:
    """A world for one example of a property (a fixture lives for all of them)."""
    with TemporaryDirectory() as folder:
        yield FlagWorld(Path(folder))


def test_the_next_decision_obeys_a_changed_file(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    assert decide(flags).sampler_id == "bolt"
    put(world.path, serving("uniform"))
    assert decide(flags).sampler_id == "uniform"


@pytest.mark.parametrize("put_back", [Path.replace, shutil.copy2])
def test_an_older_file_put_back_is_obeyed(
    world: FlagWorld, put_back: Callable[[Path, Path], object]
) -> None:
    flags = world.open(serving("bolt"))
    backup = world.folder / "backup"
    shutil.copy2(world.path, backup)
    put(world.path, serving("aks"))
    assert decide(flags).sampler_id == "aks"
    put_back(backup, world.path)
    assert decide(flags).sampler_id == "bolt"


def test_two_writes_of_one_size_within_a_clock_tick_are_both_obeyed(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    for turn in range(100):
        sampler_id = ("shot", "bolt")[turn % 2]
        world.path.write_text(world.path.read_text().replace("bolt", "shot"))
        if sampler_id == "bolt":
            world.path.write_text(world.path.read_text().replace("shot", "bolt"))
        assert decide(flags).sampler_id == sampler_id


def test_a_swapped_link_is_obeyed(world: FlagWorld) -> None:
    for name in ("bolt", "aks"):
        put(world.folder / f"{name}.json", serving(name))
    world.path.symlink_to("bolt.json")
    flags = world.open()
    assert decide(flags).sampler_id == "bolt"
    fresh = world.folder / "fresh"
    fresh.symlink_to("aks.json")
    fresh.replace(world.path)
    assert decide(flags).sampler_id == "aks"


def test_bad_content_keeps_the_last_good_flags_and_alarms_once(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    version = world.file.version
    put(world.path, "{}")
    for _ in range(3):
        assert decide(flags).sampler_id == "bolt"
    assert [alarm.kind for alarm in world.alarms] == [AlarmKind.INVALID]
    assert world.file.alarm is world.alarms[0]
    assert not world.alarms[0].is_serving_baseline
    assert "no object of flags" in world.alarms[0].detail
    assert decide(flags).flag_version == world.file.version == version


def test_good_content_clears_the_alarm(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    put(world.path, "")
    decide(flags)
    assert world.file.alarm is not None
    put(world.path, serving("aks"))
    assert decide(flags).sampler_id == "aks"
    assert world.file.alarm is None


def test_the_same_good_content_put_back_clears_the_alarm(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    world.path.rename(world.folder / "away")
    assert decide(flags).sampler_id == "bolt"
    assert world.file.alarm is not None
    assert world.file.alarm.kind is AlarmKind.MISSING
    (world.folder / "away").rename(world.path)
    assert decide(flags).sampler_id == "bolt"
    assert world.file.alarm is None


def test_an_id_that_is_not_known_here_keeps_the_last_good_flags(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    put(world.path, serving("blot"))
    assert decide(flags).sampler_id == "bolt"
    assert world.file.alarm is not None
    assert "'blot'" in world.file.alarm.detail


def test_without_a_file_the_baseline_is_served_until_there_is_one(world: FlagWorld) -> None:
    flags = world.open()
    decision = decide(flags)
    assert (decision.sampler_id, decision.reason) == ("uniform", "ERROR")
    assert decision.error is not None
    assert "no such file" in decision.error
    assert world.alarms[0].kind is AlarmKind.MISSING
    assert world.alarms[0].is_serving_baseline
    put(world.path, serving("bolt"))
    assert decide(flags).sampler_id == "bolt"


def test_a_file_that_is_bad_from_the_start_serves_the_baseline(world: FlagWorld) -> None:
    decision = decide(world.open('{"flags": {}}'))
    assert (decision.sampler_id, decision.reason) == ("uniform", "ERROR")
    assert decision.error is not None
    assert "is missing" in decision.error
    assert world.file.version is None


def test_a_file_over_the_size_bound_is_refused(world: FlagWorld) -> None:
    put(world.path, serving("bolt"))
    file = build_provider(FlagFileConfig(world.path, KNOWN, world.alarms.append, max_bytes=10))
    assert file.alarm is not None
    assert file.alarm.kind is AlarmKind.UNREADABLE


def test_a_folder_in_its_place_keeps_the_last_good_flags(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    world.path.unlink()
    world.path.mkdir()
    assert decide(flags).sampler_id == "bolt"
    assert world.file.alarm is not None
    assert world.file.alarm.kind is AlarmKind.UNREADABLE


@settings(deadline=None)
@given(length=st.integers(0, len(SHIPPED.rstrip()) - 1))
def test_a_half_written_file_keeps_the_last_good_flags(length: int) -> None:
    with fresh_world() as world:
        flags = world.open(serving("bolt"))
        world.path.write_bytes(SHIPPED[:length])
        assert decide(flags).sampler_id == "bolt"
        assert world.file.alarm is not None


@settings(deadline=None)
@given(
    position=st.integers(0, len(SHIPPED) - 1),
    flip=st.integers(1, 255),
    user_id=st.none() | st.text(max_size=5),
)
def test_a_flipped_byte_never_serves_anything_unchecked(
    position: int, flip: int, user_id: str | None
) -> None:
    mutated = bytearray(SHIPPED)
    mutated[position] ^= flip
    with fresh_world() as world:
        flags = world.open(serving("bolt"))
        world.path.write_bytes(bytes(mutated))
        decision = decide(flags, user_id)
        assert decision.error is None
        is_kept = decision.sampler_id == "bolt"
        assert is_kept if world.file.alarm else decision.sampler_id in {"aks", "uniform"}


def test_the_version_holds_the_files_own_and_a_digest_of_its_content(world: FlagWorld) -> None:
    world.open(serving("bolt"))
    first = world.file.version
    assert first is not None
    assert first.startswith("7@")
    put(world.path, serving("aks"))
    world.file.refresh()
    assert world.file.version != first
    put(world.path, serving("aks") | {"metadata": {}})
    world.file.refresh()
    assert str(world.file.version).startswith("unversioned@")


def test_threads_see_whole_files_only(world: FlagWorld) -> None:
    flags = world.open(serving("bolt"))
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(lambda: [decide(flags) for _ in range(50)]) for _ in range(4)]
        for turn in range(50):
            put(world.path, serving(("aks", "bolt")[turn % 2]))
        decisions = [decision for run in running for decision in run.result()]
    assert {decision.sampler_id for decision in decisions} <= {"aks", "bolt"}
    assert all(decision.error is None for decision in decisions)
    assert decide(flags).sampler_id == "bolt"


def test_every_type_of_flag_can_be_asked_for(world: FlagWorld) -> None:
    world.open(rollout(100))
    context = EvaluationContext("acme/ann")
    assert world.file.resolve_float_details("video.sampler.shadow_rate", 1.0, context).value == 0
    assert world.file.resolve_integer_details("video.sampler.shadow_rate", 1).value == 0
    details = world.file.resolve_string_details("video.sampler", "x", context)
    assert (details.value, details.variant, details.reason) == ("bolt", "bolt", "SPLIT")
    with pytest.raises(TypeMismatchError):
        world.file.resolve_boolean_details("video.sampler", True)
    with pytest.raises(TypeMismatchError):
        world.file.resolve_object_details("video.sampler", {})


def test_what_comes_into_force_is_told_once(world: FlagWorld) -> None:
    adopted: list[bytes] = []
    put(world.path, serving("bolt"))
    file = build_provider(
        FlagFileConfig(world.path, KNOWN, world.alarms.append, on_adopted=adopted.append)
    )
    file.refresh()
    first = world.path.read_bytes()
    world.path.write_text("{")
    file.refresh()
    assert adopted == [first]
    put(world.path, serving("aks"))
    file.refresh()
    file.refresh()
    assert adopted == [first, world.path.read_bytes()]
