"""The streaming multipart reader: any split of the body gives the same file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.multipart import ENVELOPE_BYTES, boundary_of, file_chunks
from app.errors import EmptyUploadError, FramegateError, InvalidRequestError, VideoTooLargeError

BOUNDARY = b"----cut"
FILE = b'Content-Disposition: form-data; name="file"; filename="a.mp4"\r\nContent-Type: video/mp4'


def body_of(*parts: tuple[bytes, bytes], closing: bytes = b"--\r\n") -> bytes:
    pieces = [b"--%b\r\n%b\r\n\r\n%b\r\n" % (BOUNDARY, headers, data) for headers, data in parts]
    return b"".join(pieces) + b"--" + BOUNDARY + closing


def read(body: bytes, cuts: list[int] | None = None, max_bytes: int = 10_000) -> bytes:
    edges = [0, *sorted(cut for cut in cuts or [] if cut < len(body)), len(body)]

    async def pieces() -> AsyncIterator[bytes]:
        for start, end in pairwise(edges):
            yield body[start:end]

    async def joined() -> bytes:
        return b"".join([piece async for piece in file_chunks(pieces(), BOUNDARY, max_bytes)])

    return asyncio.run(joined())


near_boundaries = st.lists(
    st.sampled_from([b"\r", b"\n", b"--", BOUNDARY, b"\r\n--" + BOUNDARY[:-1], b"\x00", b"v"]),
    max_size=12,
).map(b"".join)


@given(
    content=st.binary(max_size=200) | near_boundaries,
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_any_split_of_the_body_gives_the_same_file(content: bytes, cuts: list[int]) -> None:
    if b"\r\n--" + BOUNDARY in b"\r\n" + content:
        return  # Then it is no valid multipart: the boundary must not occur in the file.

    assert read(body_of((FILE, content)), cuts) == content


@given(body=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=4))
def test_any_bytes_are_read_or_refused_by_an_error_of_ours(body: bytes, cuts: list[int]) -> None:
    for beginning in (b"", b"--" + BOUNDARY + b"\r\n", b"--%b\r\n%b\r\n\r\n" % (BOUNDARY, FILE)):
        with pytest.raises(FramegateError):
            read(beginning + body, cuts)


@pytest.mark.parametrize(
    "body",
    [
        body_of((b'Content-Disposition: form-data; name="video"', b"x")),
        body_of((b'Content-Disposition: form-data; name="title"', b"x"), (FILE, b"x")),
        body_of((FILE, b"x"), (b'Content-Disposition: form-data; name="title"', b"x")),
        body_of((FILE, b"x"), (FILE, b"y")),
        body_of((b"Content-Type: video/mp4", b"x")),
        body_of((FILE, b"x"), closing=b""),
        body_of((FILE + b"\r\nX-Long: " + b"y" * 5000, b"x")),
        body_of((FILE + b"".join(b"\r\nX-%d: y" % number for number in range(20)), b"x")),
        b"no multipart at all",
    ],
    ids=[
        "another name",
        "a field before",
        "a field after",
        "two files",
        "no name",
        "no end",
        "long header",
        "many headers",
        "no multipart",
    ],
)
def test_anything_but_one_file_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        read(body)


def test_a_body_without_parts_is_an_empty_upload() -> None:
    with pytest.raises(EmptyUploadError):
        read(b"--" + BOUNDARY + b"--\r\n")


def test_what_surrounds_the_file_is_bounded() -> None:
    with pytest.raises(VideoTooLargeError):
        read(body_of((FILE, b"x")) + b"e" * (ENVELOPE_BYTES + 10_000), max_bytes=10)


def test_the_boundary_is_read_from_the_content_type() -> None:
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"
    for wrong in ("multipart/form-data", "multipart/form-data; boundary="):
        with pytest.raises(InvalidRequestError):
            boundary_of(wrong)


def test_an_overlong_boundary_is_refused() -> None:
    async def nothing() -> AsyncIterator[bytes]:
        yield b""

    async def start() -> None:
        await anext(file_chunks(nothing(), b"b" * 1000, 10))

    with pytest.raises(InvalidRequestError):
        asyncio.run(start())
