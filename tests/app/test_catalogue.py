"""The catalogue: rows, owners, answers, transactions, versions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import (
    AnswerNotFoundError,
    InvalidRequestError,
    VideoBusyError,
    VideoNotFoundError,
)
from app.stores.catalogue import PRUNE_INTERVAL, Catalogue
from app.stores.rows import AnswerState, Failure, VideoFacts, VideoStatus
from app.stores.schema import SCHEMA_VERSION, CatalogueVersionError

FACTS = VideoFacts(
    fps=8.0,
    num_frames=50,
    num_candidates=16,
    num_scenes=2,
    start_s=1.5,
    last_s=1.96,
    duration_s=2.0,
    width=320,
    height=180,
    is_hdr=False,
    num_damaged_packets=3,
)


def video_id_of(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalogue.sqlite"


@pytest.fixture
def catalogue(path: Path) -> Iterator[Catalogue]:
    ticks = count(1.0)
    opened = Catalogue(path, max_answers=10, clock=lambda: next(ticks))
    yield opened
    opened.close()


def test_a_new_video_is_pending(catalogue: Catalogue) -> None:
    assert catalogue.add_video("ana", video_id_of(1), 7)

    video = catalogue.get_video("ana", video_id_of(1))

    assert (video.status, video.size_bytes, video.facts) == (VideoStatus.PENDING, 7, None)


def test_the_same_content_again_is_not_new_to_its_owner(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)

    assert not catalogue.add_video("ana", video_id_of(1), 7)


def test_the_same_content_is_new_to_another_tenant_and_keeps_its_status(
    catalogue: Catalogue,
) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.set_ready(video_id_of(1), FACTS)

    assert catalogue.add_video("ben", video_id_of(1), 7)
    assert catalogue.get_video("ben", video_id_of(1)).status is VideoStatus.READY


def test_a_video_of_somebody_else_does_not_exist(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)

    with pytest.raises(VideoNotFoundError):
        catalogue.get_video("ben", video_id_of(1))
    with pytest.raises(VideoNotFoundError):
        catalogue.remove_owner("ben", video_id_of(1))
    with pytest.raises(VideoNotFoundError):
        catalogue.put_answer("a1", "ben", video_id_of(1), "what?")
    assert catalogue.list_videos("ben", limit=5).videos == ()


def test_facts_come_back_as_they_were_given(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.set_ready(video_id_of(1), FACTS)

    assert catalogue.get_video("ana", video_id_of(1)).facts == FACTS


def test_a_failure_is_remembered_until_the_video_is_queued_again(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.set_processing(video_id_of(1))
    catalogue.set_failed(video_id_of(1), Failure("no-frames", "none"))
    failed = catalogue.get_video("ana", video_id_of(1))
    catalogue.set_pending(video_id_of(1))
    queued = catalogue.get_video("ana", video_id_of(1))

    assert (failed.failure, failed.num_attempts) == (Failure("no-frames", "none"), 1)
    assert (queued.failure, queued.num_attempts) == (None, 0)


def test_unfinished_videos_are_those_that_start_up_resumes(catalogue: Catalogue) -> None:
    for number in range(4):
        catalogue.add_video("ana", video_id_of(number), 7)
    catalogue.set_processing(video_id_of(1))
    catalogue.set_ready(video_id_of(2), FACTS)
    catalogue.set_failed(video_id_of(3), Failure("no-frames", "none"))

    assert catalogue.unfinished_videos() == [video_id_of(0), video_id_of(1)]


def test_noting_progress_of_a_deleted_video_does_nothing(catalogue: Catalogue) -> None:
    catalogue.set_ready(video_id_of(1), FACTS)

    assert catalogue.find_video(video_id_of(1)) is None


def test_the_last_owner_takes_the_video_with_it(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.add_video("ben", video_id_of(1), 7)

    assert not catalogue.remove_owner("ana", video_id_of(1))
    assert catalogue.remove_owner("ben", video_id_of(1))
    assert catalogue.video_ids() == set()


def test_removing_an_owner_removes_its_answers_only(catalogue: Catalogue) -> None:
    for tenant in ("ana", "ben"):
        catalogue.add_video(tenant, video_id_of(1), 7)
        catalogue.put_answer(f"of-{tenant}", tenant, video_id_of(1), "what?")
        catalogue.finish_answer(f"of-{tenant}", AnswerState.DONE, {})

    catalogue.remove_owner("ana", video_id_of(1))

    with pytest.raises(AnswerNotFoundError):
        catalogue.get_answer("ana", "of-ana")
    assert catalogue.get_answer("ben", "of-ben").state is AnswerState.DONE


def test_a_video_with_a_running_answer_cannot_be_removed(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.put_answer("a1", "ana", video_id_of(1), "what?")

    with pytest.raises(VideoBusyError):
        catalogue.remove_owner("ana", video_id_of(1))

    assert catalogue.get_video("ana", video_id_of(1)).video_id == video_id_of(1)


def test_an_answer_comes_back_as_it_was_finished(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.put_answer("a1", "ana", video_id_of(1), "wer läuft?")
    running = catalogue.get_answer("ana", "a1")
    catalogue.finish_answer("a1", AnswerState.DONE, {"answer": "zwei Kätzchen 🐈"})
    done = catalogue.get_answer("ana", "a1")

    assert (running.state, running.document) == (AnswerState.RUNNING, None)
    assert (done.state, done.document) == (AnswerState.DONE, {"answer": "zwei Kätzchen 🐈"})
    assert done.finished_s is not None
    assert done.finished_s > done.created_s


def test_finishing_an_unknown_answer_is_an_error(catalogue: Catalogue) -> None:
    with pytest.raises(AnswerNotFoundError):
        catalogue.finish_answer("nope", AnswerState.DONE, {})


def test_interrupted_answers_have_failed_at_the_next_start(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.put_answer("a1", "ana", video_id_of(1), "what?")

    assert catalogue.fail_interrupted_answers() == 1
    assert catalogue.get_answer("ana", "a1").state is AnswerState.FAILED


def test_old_answers_are_pruned_but_running_ones_stay(catalogue: Catalogue) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.put_answer("running", "ana", video_id_of(1), "what?")
    for number in range(PRUNE_INTERVAL):
        catalogue.put_answer(f"a{number}", "ana", video_id_of(1), "what?")
        catalogue.finish_answer(f"a{number}", AnswerState.DONE, {})

    kept = [n for n in range(PRUNE_INTERVAL) if _has_answer(catalogue, f"a{n}")]

    assert kept[-1] == PRUNE_INTERVAL - 1
    assert len(kept) <= 12
    assert _has_answer(catalogue, "running")


def _has_answer(catalogue: Catalogue, answer_id: str) -> bool:
    try:
        catalogue.get_answer("ana", answer_id)
    except AnswerNotFoundError:
        return False
    return True


def test_asking_about_a_video_makes_it_the_most_recently_used(catalogue: Catalogue) -> None:
    for number in (1, 2):
        catalogue.add_video("ana", video_id_of(number), 7)
        catalogue.set_ready(video_id_of(number), FACTS)
    catalogue.put_answer("a1", "ana", video_id_of(1), "what?")

    assert catalogue.videos_by_use() == [video_id_of(2), video_id_of(1)]


def test_a_foreign_cursor_is_refused(catalogue: Catalogue) -> None:
    for cursor in ("x", "-1", "1.5", "9" * 30, "¹", ""):
        with pytest.raises(InvalidRequestError):
            catalogue.list_videos("ana", limit=5, cursor=cursor)


@given(num_videos=st.integers(0, 9), limit=st.integers(1, 4), num_removed=st.integers(0, 3))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_pages_hold_each_video_once_newest_first(
    tmp_path_factory: pytest.TempPathFactory, num_videos: int, limit: int, num_removed: int
) -> None:
    catalogue = Catalogue(tmp_path_factory.mktemp("pages") / "c.sqlite", max_answers=10)
    try:
        for number in range(num_videos):
            catalogue.add_video("ana", video_id_of(number), 7)
        page = catalogue.list_videos("ana", limit=limit)
        seen = [video.video_id for video in page.videos]
        # Videos that leave between two pages move no other one.
        for video_id in seen[:num_removed]:
            catalogue.remove_owner("ana", video_id)
        while page.next_cursor is not None:
            page = catalogue.list_videos("ana", limit=limit, cursor=page.next_cursor)
            seen += [video.video_id for video in page.videos]
    finally:
        catalogue.close()

    assert seen == [video_id_of(number) for number in reversed(range(num_videos))]


def test_threads_that_add_the_same_video_agree_on_who_was_first(catalogue: Catalogue) -> None:
    barrier = threading.Barrier(8)

    def add(_: int) -> bool:
        barrier.wait()
        return catalogue.add_video("ana", video_id_of(1), 7)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(add, range(8))) == [False] * 7 + [True]


def test_a_change_is_on_disk_when_the_call_returns(catalogue: Catalogue, path: Path) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)

    other = sqlite3.connect(path)
    try:
        assert other.execute("SELECT count(*) FROM videos").fetchone() == (1,)
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        other.close()


def test_a_reopened_catalogue_holds_what_it_held(catalogue: Catalogue, path: Path) -> None:
    catalogue.add_video("ana", video_id_of(1), 7)
    catalogue.set_ready(video_id_of(1), FACTS)
    catalogue.close()

    reopened = Catalogue(path, max_answers=10)
    try:
        assert reopened.get_video("ana", video_id_of(1)).facts == FACTS
    finally:
        reopened.close()


def test_a_catalogue_of_a_newer_version_is_refused(path: Path) -> None:
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    newer.close()

    with pytest.raises(CatalogueVersionError, match="schema version 2"):
        Catalogue(path, max_answers=10)
