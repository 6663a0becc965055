"""The gateway's side of a connection: uvicorn's, with an end to what may come before a request.

httptools joins the pieces of a header as they arrive, each time copying all of it: a header of
60 MB holds the event loop for longer than the supervisor is patient.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 65_536
"""Request line and headers, or the trailers of a chunked body; up to one read more may pass."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Answers 400 and closes when too much came without completing a head or a piece of a body."""

    _num_open_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Called by the event loop with what arrived."""
        self._num_open_bytes += len(data)
        super().data_received(data)
        if self._num_open_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The headers are larger than {MAX_HEAD_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._num_open_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._num_open_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._num_open_bytes = 0
        super().on_message_complete()
