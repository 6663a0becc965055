"""Derived data stay below their bound; what is in use stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.stores.catalogue import Catalogue
from app.stores.eviction import Evictor
from app.stores.layout import DataLayout


class Shelf:
    def __init__(self, root: Path, max_bytes: int) -> None:
        ticks = count(1.0)
        self.layout = DataLayout(root)
        self.layout.create()
        self.catalogue = Catalogue(self.layout.catalogue, max_answers=10, clock=lambda: next(ticks))
        self.told: list[str] = []
        self.evictor = Evictor(self.layout, self.catalogue, max_bytes, self.told.append)

    def put(self, number: int, num_bytes: int) -> str:
        video_id = f"{number:064x}"
        self.catalogue.add_video("ana", video_id, 1)
        folder = self.layout.derived(video_id) / "frames"
        folder.mkdir(parents=True)
        (folder / "pictures.pack").write_bytes(b"x" * num_bytes)
        return video_id

    def left(self) -> list[str]:
        return sorted(path.name for path in self.layout.root.glob("derived/??/*"))


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path, max_bytes=25_000)
    yield made
    made.catalogue.close()


def test_the_least_recently_asked_goes_first(shelf: Shelf) -> None:
    first, second, third = (shelf.put(number, 10_000) for number in range(3))
    shelf.catalogue.put_answer("a1", "ana", first, "what?")

    assert shelf.evictor.evict() == [second]
    assert shelf.left() == [first, third]
    assert shelf.told == [second]
    assert list(shelf.layout.temporary.iterdir()) == []


def test_nothing_goes_while_there_is_room(shelf: Shelf) -> None:
    shelf.put(1, 20_000)

    assert shelf.evictor.evict() == []


def test_a_pinned_video_stays_until_the_last_pin_is_gone(shelf: Shelf) -> None:
    first, second = shelf.put(1, 20_000), shelf.put(2, 20_000)

    with shelf.evictor.pinned(first), shelf.evictor.pinned(first):
        assert shelf.evictor.evict() == [second]
    with shelf.evictor.pinned(first):
        shelf.put(3, 20_000)
        assert first not in shelf.evictor.evict()
    shelf.put(4, 20_000)

    assert shelf.evictor.evict() == [first]


def test_an_open_file_is_read_on_after_its_eviction(shelf: Shelf) -> None:
    video_id = shelf.put(1, 30_000)
    path = shelf.layout.derived(video_id) / "frames" / "pictures.pack"

    with path.open("rb") as file:
        assert shelf.evictor.evict() == [video_id]
        assert len(file.read()) == 30_000


@given(
    sizes=st.lists(st.integers(0, 12_000), max_size=6),
    pins=st.sets(st.integers(0, 5)),
)
@settings(max_examples=10, deadline=None)
def test_the_bound_holds_or_only_pinned_videos_are_left(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], pins: set[int]
) -> None:
    shelf = Shelf(tmp_path_factory.mktemp("data"), max_bytes=15_000)
    ids = [shelf.put(number, size) for number, size in enumerate(sizes)]
    pinned = {ids[number] for number in pins if number < len(ids)}
    open_pins = [shelf.evictor.pinned(video_id) for video_id in pinned]
    for pin in open_pins:
        pin.__enter__()
    evicted = shelf.evictor.evict()
    for pin in open_pins:
        pin.__exit__(None, None, None)
    shelf.catalogue.close()

    left = {video_id: sizes[ids.index(video_id)] for video_id in shelf.left()}
    assert pinned <= left.keys()
    assert not pinned & set(evicted)
    assert sum(left.values()) <= 15_000 or left.keys() == pinned


def test_pins_taken_and_dropped_by_threads_leave_none_behind(shelf: Shelf) -> None:
    video_id = shelf.put(1, 30_000)

    def pin_often() -> None:
        for _ in range(200):
            with shelf.evictor.pinned(video_id):
                pass

    threads = [threading.Thread(target=pin_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert shelf.evictor.evict() == [video_id]
