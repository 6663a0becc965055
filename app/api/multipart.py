"""A multipart upload as a stream of the file's bytes.

Starlette's own form parser spools the whole body to a temporary file before a route sees a byte,
out of reach of the size limit; here every piece is handed on as it comes, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.errors import EmptyUploadError, InvalidRequestError, VideoTooLargeError

FIELD = "file"
ENVELOPE_BYTES = 64 * 1024
"""What boundaries, part headers and an epilogue may add to the file."""
MAX_HEADERS = 8
MAX_HEADER_BYTES = 4096


def boundary_of(content_type: str) -> bytes:
    """The boundary of a `multipart/form-data` content type. Raises InvalidRequestError."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise InvalidRequestError("The multipart content type names no boundary.")
    return boundary


async def file_chunks(
    body: AsyncIterator[bytes], boundary: bytes, max_file_bytes: int
) -> AsyncIterator[bytes]:
    """The bytes of the one part named `file`, as they come.

    Raises InvalidRequestError for any other field, a second file, or a body that is no complete
    multipart; EmptyUploadError when there is no part; VideoTooLargeError when what surrounds the
    file is itself too large.
    """
    part = _FilePart()
    parser = _parser(boundary, part)
    num_bytes = 0
    async for chunk in body:
        num_bytes += len(chunk)
        if num_bytes > max_file_bytes + ENVELOPE_BYTES:
            raise VideoTooLargeError(f"The limit is {max_file_bytes} bytes.")
        try:
            parser.write(chunk)
        except FormParserError as exc:
            raise InvalidRequestError(f"The multipart body is malformed: {exc}.") from exc
        for piece in part.take():
            yield piece
    if not part.is_complete:
        raise InvalidRequestError("The multipart body ends before its closing boundary.")
    if not part.has_file:
        raise EmptyUploadError(f"The multipart body has no field `{FIELD}`.")


def _parser(boundary: bytes, part: _FilePart) -> MultipartParser:
    try:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": part.on_part_begin,
                "on_header_field": part.on_header_field,
                "on_header_value": part.on_header_value,
                "on_header_end": part.on_header_end,
                "on_headers_finished": part.on_headers_finished,
                "on_part_data": part.on_part_data,
                "on_end": part.on_end,
            },
            max_header_count=MAX_HEADERS,
            max_header_size=MAX_HEADER_BYTES,
        )
    except FormParserError as exc:
        raise InvalidRequestError(f"The multipart boundary is not usable: {exc}.") from exc


class _FilePart:
    """What the parser calls. Only one part may come, and its name must be `file`."""

    def __init__(self) -> None:
        self.has_file = False
        self.is_complete = False
        self._pieces: list[bytes] = []
        self._name = bytearray()
        self._value = bytearray()
        self._disposition = b""

    def take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def on_part_begin(self) -> None:
        if self.has_file:
            raise InvalidRequestError(f"Send one part only: the field `{FIELD}`.")
        self._disposition = b""

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def on_header_end(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if name != FIELD:
            raise InvalidRequestError(
                f"Unknown field `{name[:64]}`: send the video as the field `{FIELD}`, alone."
            )
        self.has_file = True

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._pieces.append(data[start:end])

    def on_end(self) -> None:
        self.is_complete = True
