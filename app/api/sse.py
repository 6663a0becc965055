"""Server-sent events: one event per line group, data always one JSON document."""

from __future__ import annotations

import json


def sse_event(name: str, data: dict[str, object]) -> bytes:
    """`event: name` and its JSON `data` on one line, as the WHATWG event stream format asks."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
