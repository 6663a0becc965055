"""The videos' endpoints, called as clients call them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.video_world import VideoWorld, build_world, chunked, running, small_clip

pytestmark = pytest.mark.anyio

KEY = "k" * 20


def video_id_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def ready(client: httpx.AsyncClient, video_id: str) -> dict[str, Any]:
    """Poll as a client does until the video is ready or failed."""
    async with asyncio.timeout(30):
        while True:
            video: dict[str, Any] = (await client.get(f"/v1/videos/{video_id}")).json()
            if video["status"] in ("ready", "failed"):
                return video
            await asyncio.sleep(0.05)


@pytest.fixture
async def world(tmp_path: Path) -> VideoWorld:
    return build_world(tmp_path / "data", max_upload_bytes=300_000)


@pytest.fixture
async def client(world: VideoWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as opened:
        yield opened


@pytest.fixture
def clip(tmp_path: Path) -> bytes:
    return small_clip(tmp_path / "clip.mp4")


async def test_an_upload_is_created_then_processed_then_ready(
    client: httpx.AsyncClient, clip: bytes
) -> None:
    created = await client.post("/v1/videos", content=clip)
    video = await ready(client, video_id_of(clip))

    assert created.status_code == 201
    assert created.headers["Location"] == f"/v1/videos/{video_id_of(clip)}"
    assert created.json()["status"] in ("pending", "processing")
    assert video["status"] == "ready"
    assert (video["progress"], video["is_evicted"], video["problem"]) == (1.0, False, None)
    assert video["facts"]["num_frames"] == 60
    assert video["facts"]["num_candidates"] == 16
    assert video["facts"]["last_s"] == pytest.approx(59 / 30)


async def test_the_same_content_again_answers_200_with_the_same_id(
    client: httpx.AsyncClient, clip: bytes
) -> None:
    first = await client.post("/v1/videos", content=clip)
    again = await client.post("/v1/videos", files={"file": ("other-name.mp4", clip, "video/mp4")})

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["video_id"] == again.json()["video_id"]


async def test_an_unreadable_upload_fails_with_the_reason(client: httpx.AsyncClient) -> None:
    created = await client.post("/v1/videos", content=b"<html>not found</html>")
    video = await ready(client, created.json()["video_id"])

    assert created.status_code == 201
    assert video["status"] == "failed"
    assert video["problem"]["type"] == "urn:framegate:problem:not-a-video"
    assert video["problem"]["status"] == 422


async def test_a_candidate_has_a_picture_that_caches_may_keep(
    client: httpx.AsyncClient, clip: bytes
) -> None:
    await client.post("/v1/videos", content=clip)
    await ready(client, video_id_of(clip))
    url = f"/v1/videos/{video_id_of(clip)}/frames/0.jpg"

    picture = await client.get(url)
    again = await client.get(url, headers={"If-None-Match": f'"x", W/{picture.headers["ETag"]}'})

    assert picture.headers["Content-Type"] == "image/jpeg"
    assert picture.content.startswith(b"\xff\xd8")
    assert "immutable" in picture.headers["Cache-Control"]
    assert (again.status_code, again.content) == (304, b"")


async def test_a_frame_that_is_no_candidate_has_no_picture(
    client: httpx.AsyncClient, clip: bytes
) -> None:
    await client.post("/v1/videos", content=clip)
    await ready(client, video_id_of(clip))

    for index in (1, 60, 2**53):
        missing = await client.get(f"/v1/videos/{video_id_of(clip)}/frames/{index}.jpg")
        assert missing.status_code == 404
        assert missing.json()["type"].endswith(":frame-not-found")
    for index_text in ("-1", "1.5", "x", "9" * 40):
        wrong = await client.get(f"/v1/videos/{video_id_of(clip)}/frames/{index_text}.jpg")
        assert wrong.status_code == 422
        assert wrong.json()["errors"][0]["field"] == "path.index"


async def test_videos_are_listed_newest_first_in_pages(client: httpx.AsyncClient) -> None:
    ids = [
        (await client.post("/v1/videos", content=b"no video %d" % number)).json()["video_id"]
        for number in range(3)
    ]

    first = (await client.get("/v1/videos", params={"limit": 2})).json()
    second = (
        await client.get("/v1/videos", params={"limit": 2, "cursor": first["next_cursor"]})
    ).json()

    listed = [video["video_id"] for page in (first, second) for video in page["videos"]]
    assert listed == ids[::-1]
    assert second["next_cursor"] is None


async def test_a_deleted_video_is_gone_with_all_its_data(
    client: httpx.AsyncClient, world: VideoWorld, clip: bytes
) -> None:
    await client.post("/v1/videos", content=clip)
    await ready(client, video_id_of(clip))

    deleted = await client.delete(f"/v1/videos/{video_id_of(clip)}")

    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await client.get(f"/v1/videos/{video_id_of(clip)}")).status_code == 404
    assert world.stored_videos() == []
    assert not world.layout.derived(video_id_of(clip)).exists()


async def test_a_video_deleted_while_it_is_indexed_leaves_nothing(
    client: httpx.AsyncClient, world: VideoWorld, clip: bytes
) -> None:
    world.encoder.gate.clear()
    await client.post("/v1/videos", content=clip)
    await asyncio.sleep(0.3)

    assert (await client.delete(f"/v1/videos/{video_id_of(clip)}")).status_code == 204

    assert world.indexer.progress(video_id_of(clip)) is None
    assert world.stored_videos() == []
    assert not world.layout.derived(video_id_of(clip)).exists()


async def test_a_video_with_a_running_answer_is_busy(
    client: httpx.AsyncClient, world: VideoWorld, clip: bytes
) -> None:
    await client.post("/v1/videos", content=clip)
    world.catalogue.put_answer("a1", "default", video_id_of(clip), "what?")

    refused = await client.delete(f"/v1/videos/{video_id_of(clip)}")

    assert (refused.status_code, refused.headers["Retry-After"]) == (409, "2")
    assert refused.json()["type"].endswith(":video-busy")


async def test_unknown_videos_and_malformed_ids_are_told_apart(client: httpx.AsyncClient) -> None:
    unknown = await client.get(f"/v1/videos/{'0' * 64}")
    malformed = await client.get("/v1/videos/..%2f..%2fetc")
    short = await client.get("/v1/videos/abc")

    assert (unknown.status_code, unknown.json()["type"][-15:]) == (404, "video-not-found")
    assert malformed.status_code == 404
    assert (short.status_code, short.json()["errors"][0]["field"]) == (422, "path.video_id")


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b'{"url": "https://example.org/a.mp4"}', 422, "video-url-not-supported"),
        (b'{"video": 1}', 422, "invalid-request"),
        (b"[1]", 422, "invalid-request"),
        (b"{", 422, "invalid-request"),
        (b"\xff", 422, "invalid-request"),
        (b"[" * 60_000, 422, "invalid-request"),
        (b" " * 70_000, 422, "invalid-request"),
    ],
)
async def test_json_is_no_video(
    client: httpx.AsyncClient, body: bytes, status: int, problem: str
) -> None:
    refused = await client.post(
        "/v1/videos", content=body, headers={"Content-Type": "application/json"}
    )

    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (status, problem)
    assert refused.headers["Content-Type"] == "application/problem+json"


async def test_a_form_is_refused_with_the_command_that_works(client: httpx.AsyncClient) -> None:
    refused = await client.post("/v1/videos", data={"file": "x"})

    assert refused.status_code == 422
    assert "--data-binary" in refused.json()["detail"]


async def test_an_empty_upload_is_refused(client: httpx.AsyncClient, world: VideoWorld) -> None:
    raw = await client.post("/v1/videos", content=b"")
    part = await client.post("/v1/videos", files={"file": ("a.mp4", b"")})

    assert (raw.status_code, part.status_code) == (400, 400)
    assert raw.json()["type"].endswith(":empty-upload")
    assert world.temporary_files() == []


@pytest.mark.parametrize("as_multipart", [False, True])
async def test_the_limit_counts_the_video_and_not_what_surrounds_it(
    client: httpx.AsyncClient, as_multipart: bool
) -> None:
    for size, status in ((300_000, 201), (300_001, 413)):
        content = bytes([status % 256]) * size
        body: dict[str, Any] = (
            {"files": {"file": ("a.mp4", content)}} if as_multipart else {"content": content}
        )
        assert (await client.post("/v1/videos", **body)).status_code == status


async def test_a_full_queue_refuses_uploads_and_keeps_nothing_of_them(tmp_path: Path) -> None:
    world = build_world(tmp_path / "data", max_index_queue=1)
    world.encoder.gate.clear()
    async with running(world) as client:
        await client.post("/v1/videos", content=small_clip(tmp_path / "a.mp4"))
        refused = await client.post("/v1/videos", content=chunked(b"another"))

    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert world.stored_videos() == [video_id_of((tmp_path / "a.mp4").read_bytes())]


async def test_deleting_needs_the_operators_key_once_there_is_one(tmp_path: Path) -> None:
    world = build_world(tmp_path / "data", operator_key=KEY)
    async with running(world) as client:
        video_id = (await client.post("/v1/videos", content=b"clip")).json()["video_id"]
        url = f"/v1/videos/{video_id}"
        without = await client.delete(url)
        wrong = await client.delete(url, headers={"Authorization": f"Bearer {KEY}x"})
        right = await client.delete(url, headers={"Authorization": f"Bearer {KEY}"})

    assert (without.status_code, wrong.status_code, right.status_code) == (403, 403, 204)
    assert without.json()["type"].endswith(":operator-key-required")


async def test_openapi_describes_uploads_and_every_problem(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    upload = paths["/v1/videos"]["post"]

    assert "multipart/form-data" in upload["requestBody"]["content"]
    assert {"200", "201", "400", "408", "413", "422", "429", "507"} <= set(upload["responses"])
    problems = upload["responses"]["413"]["content"]["application/problem+json"]
    assert "video-too-large" in problems["examples"]


async def test_a_chunked_upload_needs_no_stated_length(
    client: httpx.AsyncClient, clip: bytes
) -> None:
    created = await client.post("/v1/videos", content=chunked(clip))

    assert created.json()["video_id"] == video_id_of(clip)
