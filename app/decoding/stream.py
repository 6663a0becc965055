"""Opens a video file, picks its one stream and decodes it in order.

The rule that picks the stream: the first video stream of the file, in file order, that is no
attached picture or thumbnail track and whose codec has a decoder. The frame table records which.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard, Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from app.decoding.limits import refuse_exhausted_memory
from app.errors import (
    FrameTooLargeError,
    NotAVideoError,
    NoVideoStreamError,
    UnreadableVideoError,
    UnsupportedCodecError,
)

FORMATS = (
    *("mov", "matroska", "avi", "mpegts", "mpeg", "ogg", "gif", "flv", "asf", "mxf", "ivf"),
    *("h264", "hevc", "obu", "av1", "m4v", "mpegvideo"),
)
"""FFmpeg's demuxers that may open an upload. None of them opens a second file: a playlist
(`concat`, `hls`, `dash`, …) could name another tenant's video."""

DECODER_ERRORS = (
    av.FFmpegError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OSError,
    EOFError,
)
"""What PyAV was seen to raise on damaged files: not only its own errors."""

WORKING_BYTES = 16 * 1024 * 1024
"""What opening a file or a decoder needs at least, thread stacks included."""
BYTES_PER_PIXEL = 4

_NEVER_USED = Disposition.attached_pic | Disposition.timed_thumbnails


class VideoSource:
    """One open file with its one used stream. Built by `open_video`."""

    def __init__(
        self, container: InputContainer, stream: VideoStream, max_frame_pixels: int
    ) -> None:
        self.container = container
        self.stream = stream
        self.num_damaged_packets = 0
        self.bytes_fraction = 0.0
        """How far into the file the last packet lies, 0..1."""
        self._max_frame_pixels = max_frame_pixels

    def frames(self) -> Iterator[VideoFrame]:
        """Every decodable frame in presentation order. Damaged packets are skipped and counted.

        Raises `FrameTooLargeError` when the picture grows beyond the limit, and MemoryError.
        """
        for packet, is_last in _with_last(self._packets()):
            # A cut-off last packet would fail while the decoder is drained, and PyAV then loses the
            # frames that other threads still hold: how many would depend on the number of threads.
            if is_last and packet.is_corrupt:
                self.num_damaged_packets += 1
                continue
            yield from self._decode(packet)
        yield from self._decode(None)

    def _packets(self) -> Iterator[Packet[VideoStream]]:
        packets = self.container.demux(self.stream)
        while True:
            try:
                packet = next(packets, None)
            except MemoryError:
                raise
            except DECODER_ERRORS:
                refuse_exhausted_memory(WORKING_BYTES)
                # The rest of the file cannot be read; what came before it stays good.
                self.num_damaged_packets += 1
                return
            if packet is None:
                return
            if packet.pos is not None and self.container.size > 0:
                self.bytes_fraction = max(self.bytes_fraction, packet.pos / self.container.size)
            # To the decoder an empty packet means the end of the stream, here it means nothing.
            if packet.size > 0:
                yield packet

    def _decode(self, packet: Packet[VideoStream] | None) -> list[VideoFrame]:
        try:
            return self.stream.decode(packet)
        except MemoryError:
            raise
        except DECODER_ERRORS:
            refuse_large_frames(self.stream, self._max_frame_pixels)
            refuse_exhausted_memory(WORKING_BYTES + self._frame_bytes())
            self.num_damaged_packets += 1
            return []

    def _frame_bytes(self) -> int:
        context = self.stream.codec_context
        return BYTES_PER_PIXEL * context.width * context.height


@contextmanager
def open_video(source: Path, *, max_frame_pixels: int, threads: int) -> Iterator[VideoSource]:
    """Open `source` for decoding.

    Raises `NotAVideoError`, `NoVideoStreamError`, `UnsupportedCodecError`, `FrameTooLargeError` and
    MemoryError, all before any frame is decoded.
    """
    with _open_container(source) as container:
        stream = pick_stream(container)
        refuse_large_frames(stream, max_frame_pixels)
        for other in container.streams:
            other.discard = Discard.default if other.index == stream.index else Discard.all
        context = stream.codec_context
        context.options = {"max_pixels": str(max_frame_pixels)}
        context.thread_count = threads
        context.thread_type = "AUTO"
        yield VideoSource(container, stream, max_frame_pixels)


def pick_stream(container: InputContainer) -> VideoStream:
    """The one video stream that is used; the rule stands at the top of this file.

    Raises `NoVideoStreamError` and `UnsupportedCodecError`.
    """
    streams = [
        stream
        for stream in container.streams
        if isinstance(stream, VideoStream) and not stream.disposition & _NEVER_USED
    ]
    if not streams:
        raise NoVideoStreamError
    for stream in streams:
        if _has_decoder(stream):
            return stream
    raise UnsupportedCodecError


def refuse_large_frames(stream: VideoStream, max_frame_pixels: int) -> None:
    """Raise `FrameTooLargeError` when the stream says that its frames exceed the limit."""
    context = stream.codec_context
    width = max(context.width, context.coded_width)
    height = max(context.height, context.coded_height)
    if width * height > max_frame_pixels:
        raise FrameTooLargeError(f"Frames of {width} x {height} exceed {max_frame_pixels} pixels.")


def _open_container(source: Path) -> InputContainer:
    try:
        return av.open(
            str(source),
            mode="r",
            options={"format_whitelist": ",".join(FORMATS), "protocol_whitelist": "file"},
            metadata_errors="ignore",
        )
    except MemoryError:
        raise
    except FileNotFoundError as error:
        raise UnreadableVideoError("The video's bytes are no longer stored.") from error
    except DECODER_ERRORS as error:
        refuse_exhausted_memory(WORKING_BYTES)
        raise NotAVideoError from error


def _has_decoder(stream: VideoStream) -> bool:
    # Without a decoder PyAV has no codec context, whatever its type stubs say.
    return getattr(stream, "codec_context", None) is not None


def _with_last(
    packets: Iterator[Packet[VideoStream]],
) -> Iterator[tuple[Packet[VideoStream], bool]]:
    held = next(packets, None)
    while held is not None:
        following = next(packets, None)
        yield held, following is None
        held = following
