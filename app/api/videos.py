"""Videos over HTTP: upload, status, pictures, deletion. No decisions here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

from fastapi import APIRouter, Depends, Query, Request, Response

from app.api.multipart import ENVELOPE_BYTES, boundary_of, file_chunks
from app.api.operators import OperatorGate
from app.api.problems import documented_problems
from app.api.video_schemas import (
    FrameIndexPath,
    VideoDocument,
    VideoIdPath,
    VideoListDocument,
    video_document,
)
from app.errors import (
    BusyError,
    EmptyUploadError,
    FrameNotFoundError,
    InvalidRequestError,
    LedgerUnavailableError,
    OperatorKeyError,
    StorageFullError,
    UnavailableError,
    UploadTimeoutError,
    VideoBusyError,
    VideoNotFoundError,
    VideoTooLargeError,
    VideoUrlNotSupportedError,
)
from app.index import Indexer
from app.intake import Intake, IntakeResult
from app.ledger_calls import LedgerCalls
from app.stores.catalogue import Catalogue
from app.stores.eviction import Evictor
from app.stores.frames import PicturePack, find_frames, read_frame_table
from app.stores.layout import DataLayout
from app.stores.ledger import Ledger
from app.stores.ledger_rows import RecordCounts
from app.stores.rows import VideoRow

MAX_JSON_BYTES = 64 * 1024
PICTURE_CACHING = "private, max-age=31536000, immutable"
BINARY = {"schema": {"type": "string", "format": "binary"}}
UPLOAD_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The video, as the raw body or as the one multipart field `file`.",
        "content": {
            "video/mp4": BINARY,
            "application/octet-stream": BINARY,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": BINARY["schema"]},
                }
            },
        },
    }
}


@dataclass(frozen=True, slots=True)
class VideoServices:
    """What the routes hand their calls to."""

    tenant: str
    max_upload_bytes: int
    catalogue: Catalogue
    intake: Intake
    indexer: Indexer
    evictor: Evictor
    layout: DataLayout
    decode_version: str
    gate: OperatorGate
    ledger: Ledger
    ledger_calls: LedgerCalls


def videos_router(services: VideoServices) -> APIRouter:
    router = APIRouter(prefix="/v1/videos", tags=["videos"])
    _add_upload(router, services)
    _add_reads(router, services)
    _add_delete(router, services)
    return router


def _add_upload(router: APIRouter, services: VideoServices) -> None:
    @router.post(
        "",
        status_code=201,
        responses={
            200: {"model": VideoDocument, "description": "You uploaded this content before."},
            **documented_problems(
                EmptyUploadError,
                UploadTimeoutError,
                VideoTooLargeError,
                InvalidRequestError,
                VideoUrlNotSupportedError,
                BusyError,
                UnavailableError,
                StorageFullError,
            ),
        },
        openapi_extra=UPLOAD_BODY,
        summary="Upload a video; indexing starts at once",
    )
    async def post_video(request: Request, response: Response) -> VideoDocument:
        result = await _receive(request, services)
        await services.indexer.submit(result.video_id)
        response.status_code = 201 if result.is_new else 200
        response.headers["Location"] = f"/v1/videos/{result.video_id}"
        return await _current(services, result.video_id)


def _add_reads(router: APIRouter, services: VideoServices) -> None:
    @router.get(
        "", responses=documented_problems(InvalidRequestError), summary="Your videos, newest first"
    )
    async def list_videos(
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        cursor: Annotated[str | None, Query(description="`next_cursor` of a page.")] = None,
    ) -> VideoListDocument:
        page = await asyncio.to_thread(
            services.catalogue.list_videos, services.tenant, limit=limit, cursor=cursor
        )
        videos = await asyncio.to_thread(
            lambda: [_document(services, video) for video in page.videos]
        )
        return VideoListDocument(videos=videos, next_cursor=page.next_cursor)

    @router.get(
        "/{video_id}",
        responses=documented_problems(VideoNotFoundError, InvalidRequestError),
        summary="Status, progress and facts of a video",
    )
    async def get_video(video_id: VideoIdPath) -> VideoDocument:
        return await _current(services, video_id)

    @router.get(
        "/{video_id}/frames/{index}.jpg",
        response_class=Response,
        responses={
            200: {"content": {"image/jpeg": BINARY}, "description": "The stored picture."},
            304: {"description": "The client has it already."},
            **documented_problems(VideoNotFoundError, FrameNotFoundError, InvalidRequestError),
        },
        summary="The picture of a candidate frame",
    )
    async def get_frame(video_id: VideoIdPath, index: FrameIndexPath, request: Request) -> Response:
        await asyncio.to_thread(services.catalogue.get_video, services.tenant, video_id)
        jpeg = await asyncio.to_thread(_picture, services, video_id, index)
        headers = {
            "ETag": f'"{video_id[:16]}-{index}-{services.decode_version}"',
            "Cache-Control": PICTURE_CACHING,
            "X-Content-Type-Options": "nosniff",
        }
        if _has_current(request, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return Response(jpeg, media_type="image/jpeg", headers=headers)


def _add_delete(router: APIRouter, services: VideoServices) -> None:
    @router.delete(
        "/{video_id}",
        status_code=204,
        dependencies=[Depends(services.gate)],
        responses=documented_problems(
            OperatorKeyError,
            VideoNotFoundError,
            VideoBusyError,
            InvalidRequestError,
            LedgerUnavailableError,
        ),
        summary="Delete a video, the answers about it and its ledger rows (operators)",
    )
    async def delete_video(video_id: VideoIdPath) -> None:
        try:
            is_gone = await services.intake.remove(services.tenant, video_id)
        except VideoNotFoundError:
            # An earlier call may have found the ledger away: this one finishes it.
            if (await _delete_rows(services, video_id)).total == 0:
                raise
            return
        if is_gone:
            await services.indexer.forget(video_id)
        await _delete_rows(services, video_id)


async def _delete_rows(services: VideoServices, video_id: str) -> RecordCounts:
    call = services.ledger.delete_video
    try:
        return await services.ledger_calls.run(call, services.tenant, video_id)
    except LedgerUnavailableError as exc:
        raise LedgerUnavailableError(
            f"The video is gone, its rows in the ledger are not: delete it again. {exc.detail}"
        ) from exc


async def _receive(request: Request, services: VideoServices) -> IntakeResult:
    """Whatever refuses the upload before its end also closes the connection."""
    body = _Body(request)
    try:
        chunks, envelope_bytes = await _upload_chunks(request, body, services.max_upload_bytes)
        services.indexer.check_room()
        if body.declared_bytes is not None:
            services.intake.check_size(body.declared_bytes - envelope_bytes)
        return await services.intake.intake(services.tenant, chunks)
    finally:
        request.state.is_body_unread = not body.is_complete


async def _upload_chunks(
    request: Request, body: _Body, max_upload_bytes: int
) -> tuple[AsyncIterator[bytes], int]:
    """The file's bytes as they come, and how many bytes may surround them."""
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/json":
        await _refuse_json(body.chunks())
    if media_type == "application/x-www-form-urlencoded":
        raise InvalidRequestError(
            "A form cannot hold a video: send it with `curl --data-binary @FILE -H "
            "'Content-Type: video/mp4'` or `curl -F file=@FILE`."
        )
    if media_type == "multipart/form-data":
        boundary = boundary_of(content_type)
        return file_chunks(body.chunks(), boundary, max_upload_bytes), ENVELOPE_BYTES
    return body.chunks(), 0


async def _refuse_json(chunks: AsyncIterator[bytes]) -> NoReturn:
    text = bytearray()
    async for chunk in chunks:
        text += chunk
        if len(text) > MAX_JSON_BYTES:
            raise InvalidRequestError("A video is no JSON: send its bytes.")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidRequestError("The body is no valid JSON, and no video either.") from exc
    if isinstance(document, dict) and "url" in document:
        raise VideoUrlNotSupportedError
    raise InvalidRequestError("A video is no JSON: send its bytes.")


class _Body:
    """The request's body, and whether all of it was read."""

    def __init__(self, request: Request) -> None:
        self.is_complete = False
        self._request = request
        declared = request.headers.get("content-length", "")
        self.declared_bytes = int(declared) if declared.isdigit() else None

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._request.stream():
            yield chunk
        self.is_complete = True


async def _current(services: VideoServices, video_id: str) -> VideoDocument:
    video = await asyncio.to_thread(services.catalogue.get_video, services.tenant, video_id)
    return await asyncio.to_thread(_document, services, video)


def _document(services: VideoServices, video: VideoRow) -> VideoDocument:
    return video_document(
        video,
        services.indexer.progress(video.video_id),
        has_data=services.evictor.has_derived_data(video.video_id),
    )


def _picture(services: VideoServices, video_id: str, index: int) -> bytes:
    folder = find_frames(services.layout, video_id, services.decode_version)
    try:
        row = None if folder is None else read_frame_table(folder).candidate_row(index)
        if folder is None or row is None:
            raise FrameNotFoundError(f"Frame {index} of this video has no stored picture.")
        return PicturePack(folder).jpeg(row)
    except FileNotFoundError as exc:
        raise FrameNotFoundError("The video's pictures were evicted just now.") from exc


def _has_current(request: Request, etag: str) -> bool:
    known = request.headers.get("if-none-match", "")
    return any(tag.strip().removeprefix("W/") in (etag, "*") for tag in known.split(","))
