"""Where finished comparisons go."""

from __future__ import annotations

from typing import Protocol

from shadow.records import ComparisonRecord


class Sink(Protocol):
    """Called in the shadow's own thread, one record at a time, never on the event loop."""

    def put(self, record: ComparisonRecord) -> None:
        """Take the record. May block briefly; what it raises is logged and costs this record."""
        ...

    def close(self) -> None:
        """No record comes after this."""
        ...
