"""Server-sent events: one event per line group, data always one JSON document."""

from __future__ import annotations

import json
from enum import StrEnum


class StreamEvent(StrEnum):
    """The events of a streamed answer, in their order; the last one is `done` or `error`."""

    PROGRESS = "progress"
    EVIDENCE = "evidence"
    TOKEN = "token"
    USAGE = "usage"
    DONE = "done"
    ERROR = "error"


def sse_event(name: StreamEvent, data: dict[str, object]) -> bytes:
    """`event: name` and its JSON `data` on one line, as the WHATWG event stream format asks."""
    # Escaped to ASCII: many clients also split lines at U+2028 or U+0085, which a token may hold.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
