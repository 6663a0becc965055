"""Stage 1: whole files with the right name, or nothing."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import (
    BusyError,
    EmptyUploadError,
    StorageFullError,
    UnavailableError,
    UploadTimeoutError,
    VideoNotFoundError,
    VideoTooLargeError,
)
from app.intake import BLOCK_BYTES, Intake, IntakeLimits
from app.stores.catalogue import Catalogue
from app.stores.layout import DataLayout
from tests.app.video_world import chunked

pytestmark = pytest.mark.anyio

LIMITS = IntakeLimits(
    max_bytes=300_000, idle_timeout_s=5.0, max_concurrent=4, min_free_disk_bytes=0
)


class Shelf:
    """An intake on an empty folder."""

    def __init__(self, root: Path, limits: IntakeLimits) -> None:
        self.layout = DataLayout(root)
        self.layout.create()
        self.catalogue = Catalogue(self.layout.catalogue, max_answers=10)
        self.num_bytes = 0
        self.intake = Intake(self.layout, self.catalogue, limits, self._count)

    def _count(self, num_bytes: int) -> None:
        self.num_bytes += num_bytes

    def files(self) -> list[str]:
        folders = ("tmp", "videos", "derived")
        paths = [path for folder in folders for path in (self.layout.root / folder).rglob("*")]
        return sorted(path.name for path in paths if path.is_file())


@pytest.fixture
def make_shelf(tmp_path: Path) -> Iterator[Callable[..., Shelf]]:
    made: list[Shelf] = []

    def make(limits: IntakeLimits = LIMITS, folder: str = "data") -> Shelf:
        made.append(Shelf(tmp_path / folder, limits))
        return made[-1]

    yield make
    for shelf in made:
        shelf.catalogue.close()


@pytest.fixture
def shelf(make_shelf: Callable[..., Shelf]) -> Shelf:
    return make_shelf()


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_an_upload_is_stored_under_the_hash_of_its_bytes(shelf: Shelf) -> None:
    content = bytes(range(256)) * 1000

    result = await shelf.intake.intake("ana", chunked(content))

    assert (result.video_id, result.size_bytes) == (sha256_of(content), len(content))
    assert result.is_new
    assert shelf.layout.video_bytes(result.video_id).read_bytes() == content
    assert shelf.files() == [result.video_id]
    assert shelf.num_bytes == len(content)


@given(
    sizes=st.lists(st.sampled_from([0, 1, 100, BLOCK_BYTES - 1, BLOCK_BYTES, 70_000]), max_size=4)
)
@settings(max_examples=15, deadline=None)
def test_how_the_bytes_are_cut_makes_no_difference(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    content = b"x" + b"".join(bytes([number]) * size for number, size in enumerate(sizes))
    shelf = Shelf(tmp_path_factory.mktemp("cut"), LIMITS)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        for number, size in enumerate(sizes):
            yield bytes([number]) * size

    try:
        result = asyncio.run(shelf.intake.intake("ana", pieces()))
    finally:
        shelf.catalogue.close()

    assert (result.video_id, result.size_bytes) == (sha256_of(content), len(content))


async def test_the_same_content_again_is_the_same_video(shelf: Shelf) -> None:
    first = await shelf.intake.intake("ana", chunked(b"clip"))
    again = await shelf.intake.intake("ana", chunked(b"clip"))
    of_ben = await shelf.intake.intake("ben", chunked(b"clip"))

    assert first.video_id == again.video_id == of_ben.video_id
    assert (first.is_new, again.is_new, of_ben.is_new) == (True, False, True)
    assert shelf.files() == [first.video_id]


async def test_the_same_content_twice_at_once_is_new_once(shelf: Shelf) -> None:
    uploads = [shelf.intake.intake("ana", chunked(b"clip" * 50_000)) for _ in range(4)]

    results = await asyncio.gather(*uploads)

    assert sorted(result.is_new for result in results) == [False, False, False, True]
    assert shelf.files() == [results[0].video_id]


async def test_an_empty_upload_leaves_nothing(shelf: Shelf) -> None:
    with pytest.raises(EmptyUploadError):
        await shelf.intake.intake("ana", chunked(b""))

    assert shelf.files() == []


async def test_the_largest_upload_passes_and_one_byte_more_leaves_nothing(shelf: Shelf) -> None:
    largest = await shelf.intake.intake("ana", chunked(b"v" * LIMITS.max_bytes))
    with pytest.raises(VideoTooLargeError):
        await shelf.intake.intake("ana", chunked(b"w" * (LIMITS.max_bytes + 1)))

    assert shelf.files() == [largest.video_id]


async def test_an_endless_upload_is_refused_soon_after_the_limit(shelf: Shelf) -> None:
    num_sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal num_sent
        while True:
            num_sent += 10_000
            yield b"x" * 10_000

    with pytest.raises(VideoTooLargeError):
        await shelf.intake.intake("ana", endless())

    assert num_sent <= LIMITS.max_bytes + BLOCK_BYTES + 10_000
    assert shelf.files() == []


async def test_a_client_that_breaks_off_leaves_nothing(shelf: Shelf) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 200_000
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await shelf.intake.intake("ana", broken())

    assert shelf.files() == []
    assert shelf.catalogue.video_ids() == set()


async def test_a_cancelled_upload_leaves_nothing(shelf: Shelf) -> None:
    has_begun = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        yield b"x" * 200_000
        has_begun.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(shelf.intake.intake("ana", stalled()))
    await has_begun.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload

    assert shelf.files() == []


async def test_a_trickle_times_out(make_shelf: Callable[..., Shelf]) -> None:
    shelf = make_shelf(IntakeLimits(300_000, 0.2, 4, 0))

    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await asyncio.sleep(0.01)

    with pytest.raises(UploadTimeoutError):
        await shelf.intake.intake("ana", trickle())

    assert shelf.files() == []


async def test_uploads_beyond_the_bound_are_refused_and_places_come_back(
    make_shelf: Callable[..., Shelf],
) -> None:
    shelf = make_shelf(IntakeLimits(300_000, 5.0, 1, 0))
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        has_begun.set()
        await may_end.wait()
        yield b"slow"

    first = asyncio.create_task(shelf.intake.intake("ana", slow()))
    await has_begun.wait()
    with pytest.raises(BusyError):
        await shelf.intake.intake("ana", chunked(b"second"))
    may_end.set()
    await first

    assert (await shelf.intake.intake("ana", chunked(b"third"))).is_new


async def test_a_full_disk_refuses_before_it_is_full(make_shelf: Callable[..., Shelf]) -> None:
    shelf = make_shelf(IntakeLimits(300_000, 5.0, 4, 2**62))

    with pytest.raises(StorageFullError):
        shelf.intake.check_size(None)
    with pytest.raises(StorageFullError):
        await shelf.intake.intake("ana", chunked(b"clip"))

    assert shelf.files() == []


@pytest.mark.parametrize("folder", ["tmp", "videos"])
async def test_a_disk_that_refuses_is_said_to_be_away(shelf: Shelf, folder: str) -> None:
    shutil.rmtree(shelf.layout.root / folder, ignore_errors=True)
    (shelf.layout.root / folder).touch()

    with pytest.raises(UnavailableError, match="cannot be stored"):
        await shelf.intake.intake("ana", chunked(b"clip"))
    assert shelf.files() == []


def test_a_stated_size_above_the_limit_is_refused_before_reading(shelf: Shelf) -> None:
    shelf.intake.check_size(LIMITS.max_bytes)
    with pytest.raises(VideoTooLargeError):
        shelf.intake.check_size(LIMITS.max_bytes + 1)


async def test_removing_a_video_waits_for_its_last_owner(shelf: Shelf) -> None:
    video_id = (await shelf.intake.intake("ana", chunked(b"clip"))).video_id
    await shelf.intake.intake("ben", chunked(b"clip"))
    shelf.layout.derived(video_id).mkdir(parents=True)
    (shelf.layout.derived(video_id) / "table.json").write_text("{}")

    assert not await shelf.intake.remove("ana", video_id)
    assert video_id in shelf.files()
    assert await shelf.intake.remove("ben", video_id)
    assert shelf.files() == []
    with pytest.raises(VideoNotFoundError):
        await shelf.intake.remove("ben", video_id)


async def test_uploads_and_deletes_of_one_content_never_lose_a_promised_file(shelf: Shelf) -> None:
    async def upload_and_remove(tenant: str) -> None:
        for _ in range(5):
            result = await shelf.intake.intake(tenant, chunked(b"clip"))
            assert shelf.layout.video_bytes(result.video_id).read_bytes() == b"clip"
            await shelf.intake.remove(tenant, result.video_id)

    await asyncio.gather(*(upload_and_remove(tenant) for tenant in ("ana", "ben", "eva")))

    assert shelf.files() == []


async def test_recovery_removes_the_half_done_and_keeps_the_rest(shelf: Shelf) -> None:
    kept = (await shelf.intake.intake("ana", chunked(b"clip"))).video_id
    orphan = "f" * 64
    for path in (
        shelf.layout.temporary / "upload-1",
        shelf.layout.temporary / "decode-2" / "frames" / "pictures.pack",
        shelf.layout.video_bytes(orphan),
        shelf.layout.derived(orphan) / "table.json",
        shelf.layout.derived(kept) / "table.json",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")

    shelf.intake.recover()

    assert shelf.files() == sorted([kept, "table.json"])
    assert not shelf.layout.derived(orphan).exists()
