"""app/scorer/cache.py: shared, bounded, private, and never in the way."""

from __future__ import annotations

import multiprocessing
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.scorer.cache import FRESH_S, ScoreCache, ScoreKey, ScoreValue
from app.scorer.spec import ScoreNamespace
from app.stores.removal import discard
from tests.app.scored_video import QUERY, ScoredWorld, backend_of, by_brightness
from tests.fakes import FakeVlmServer

KEY = ScoreKey(
    kind="frame",
    video_id="ab" * 32,
    fps=8.0,
    decode_version="d1",
    model_id="m",
    prompt_version="1",
    picture_px=448,
    query="What animals are there?",
    rows=(3,),
)
MAX_BYTES = 64 * 1024


def cache_in(folder: Path, max_bytes: int = MAX_BYTES) -> ScoreCache:
    return ScoreCache(folder / "scores.sqlite", max_bytes)


def row_key(row: int) -> ScoreKey:
    return replace(KEY, rows=(row,))


@pytest.mark.parametrize("value", [0.0, 0.25, 1.0, None, '{"1": 5}', ""])
def test_what_was_written_is_read_again(tmp_path: Path, value: ScoreValue) -> None:
    cache_in(tmp_path).write({KEY: value})
    assert cache_in(tmp_path).read([KEY, row_key(4)]) == {KEY: value}


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, kind="set"),
        replace(KEY, video_id="cd" * 32),
        replace(KEY, fps=4.0),
        replace(KEY, decode_version="d2"),
        replace(KEY, model_id="n"),
        replace(KEY, prompt_version="2"),
        replace(KEY, picture_px=224),
        replace(KEY, query="What animals are there"),
        replace(KEY, rows=(3, 4)),
    ],
)
def test_whatever_a_score_depends_on_is_in_its_key(tmp_path: Path, other: ScoreKey) -> None:
    cache_in(tmp_path).write({KEY: 0.5})
    assert cache_in(tmp_path).read([other]) == {}


def test_more_keys_than_one_statement_takes(tmp_path: Path) -> None:
    cache = cache_in(tmp_path, 10 * MAX_BYTES)
    scores: dict[ScoreKey, ScoreValue] = {row_key(row): row / 1200 for row in range(1200)}
    cache.write(scores)
    assert cache.read(list(scores)) == scores


def num_rows(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "scores.sqlite")) as connection:
        [count] = connection.execute("SELECT count(*) FROM scores").fetchone()
    return int(count)


def test_the_file_stays_below_its_size_and_keeps_what_was_used_last(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    cache.write({row_key(row): 0.5 for row in range(400)})
    with closing(sqlite3.connect(tmp_path / "scores.sqlite")) as connection, connection:
        connection.execute("UPDATE scores SET used_s = used_s - ?", (2 * FRESH_S,))
    used = [row_key(row) for row in range(50)]
    assert len(cache.read(used)) == 50
    others = [row_key(row) for row in range(50, 400)]
    first = 1000
    while num_rows(tmp_path) == 400 + first - 1000:
        cache.write({row_key(row): 0.5 for row in range(first, first + 50)})
        first += 50
    assert len(cache.read(used)) == 50
    assert len(cache.read(others)) < len(others)
    for start in range(2000, 6000, 200):
        cache.write({row_key(row): 0.5 for row in range(start, start + 200)})
    # The file's free pages and one batch may stand above the bound of what is used.
    assert (tmp_path / "scores.sqlite").stat().st_size < 2 * MAX_BYTES


def test_the_question_is_not_in_the_file(tmp_path: Path) -> None:
    cache_in(tmp_path).write({KEY: 0.5})
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"animals" not in content


@pytest.mark.parametrize(
    "damage", [b"this is no database, and long enough to tell" * 40, b"\0" * 64]
)
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: bytes) -> None:
    cache = cache_in(tmp_path)
    (tmp_path / "scores.sqlite").write_bytes(damage)
    for _ in range(2):
        cache.read([KEY])
        cache.write({KEY: 0.5})
    assert cache.read([KEY]) == {KEY: 0.5}


def test_damage_inside_the_file_is_noticed(tmp_path: Path) -> None:
    cache = cache_in(tmp_path, 100 * MAX_BYTES)
    keys = [row_key(row) for row in range(2000)]
    cache.write(dict.fromkeys(keys, 0.5))
    path = tmp_path / "scores.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:-4096] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    found = cache.read(keys)
    assert set(found.values()) <= {0.5}
    cache.write({KEY: 0.25})
    cache.write({KEY: 0.25})
    assert cache.read([KEY]) == {KEY: 0.25}


def test_a_value_that_is_no_score_is_asked_again(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    cache.write({KEY: 0.5})
    with closing(sqlite3.connect(tmp_path / "scores.sqlite")) as connection, connection:
        connection.execute("UPDATE scores SET value = 7.5")
    assert cache.read([KEY]) == {}


def test_a_locked_file_costs_scores_but_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.scorer.cache.BUSY_TIMEOUT_S", 0.05)
    cache = cache_in(tmp_path)
    cache.write({KEY: 0.5})
    with closing(sqlite3.connect(tmp_path / "scores.sqlite")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        cache.write({row_key(9): 0.5})
        assert cache.read([KEY]) == {KEY: 0.5}
        connection.rollback()
    assert cache.read([row_key(9)]) == {}


def write_many(folder: Path, first: int) -> None:
    cache = ScoreCache(folder / "scores.sqlite", 100 * MAX_BYTES)
    for row in range(first, first + 50):
        cache.write({row_key(row): 0.5})


def test_several_processes_write_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    firsts = (0, 50, 100)
    writers = [context.Process(target=write_many, args=(tmp_path, first)) for first in firsts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    keys = [row_key(row) for row in range(150)]
    assert len(cache_in(tmp_path, 100 * MAX_BYTES).read(keys)) == 150


def test_scores_go_with_the_derived_data_of_their_video(tmp_path: Path) -> None:
    world = ScoredWorld(tmp_path)
    with FakeVlmServer(by_brightness) as server:
        backend = backend_of(server.url)
        scorer = world.scorer(backend)
        scorer.score(world.handle, QUERY, [1])
        world.scorer(backend, namespace=ScoreNamespace.SHADOW).score(world.handle, QUERY, [1])
        kept = [world.cache_file(), world.cache_file(ScoreNamespace.SHADOW)]
        assert all(path.is_file() for path in kept)
        derived = world.layout.derived(world.handle.video_id)
        discard(derived, world.layout)
        # A selection that was running goes on with the pictures it has open, and keeps nothing.
        assert len(scorer.score(world.handle, QUERY, [2])) == 1
        assert not derived.exists()
        backend.close()
