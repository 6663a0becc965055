"""Keeps the derived data of all videos below a total size; video bytes are never evicted.

The videos asked about longest ago go first, each as a whole and by one rename. A video in use is
pinned and stays. What was evicted is indexed again from its bytes at the next question about it.
"""

from __future__ import annotations

import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.stores.catalogue import Catalogue
from app.stores.layout import DataLayout
from app.stores.removal import discard


class Evictor:
    """One for the data folder; its methods may be called from any thread."""

    def __init__(
        self,
        layout: DataLayout,
        catalogue: Catalogue,
        max_bytes: int,
        on_evicted: Callable[[str], None],
    ) -> None:
        self._layout = layout
        self._catalogue = catalogue
        self._max_bytes = max_bytes
        self._on_evicted = on_evicted
        self._num_pins: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def pinned(self, video_id: str) -> Iterator[None]:
        """Keep the video's derived data. Pin first, then look whether they are there."""
        with self._lock:
            self._num_pins[video_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_pins[video_id] -= 1
                if self._num_pins[video_id] == 0:
                    del self._num_pins[video_id]

    def has_derived_data(self, video_id: str) -> bool:
        """False for a video that was evicted, or has not been decoded yet."""
        return self._layout.derived(video_id).is_dir()

    def evict(self) -> list[str]:
        """Bring the total below the bound where pins allow it. Returns the ids that went."""
        sizes = {path.name: _size_bytes(path) for path in self._layout.root.glob("derived/??/*")}
        total_bytes = sum(sizes.values())
        evicted: list[str] = []
        for video_id in self._catalogue.videos_by_use():
            if total_bytes <= self._max_bytes:
                break
            if video_id in sizes and self._discard_unless_pinned(video_id):
                total_bytes -= sizes[video_id]
                evicted.append(video_id)
                self._on_evicted(video_id)
        return evicted

    def _discard_unless_pinned(self, video_id: str) -> bool:
        with self._lock:
            if video_id in self._num_pins:
                return False
            discard(self._layout.derived(video_id), self._layout)
            return True


def _size_bytes(folder: Path) -> int:
    total_bytes = 0
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:  # Renamed meanwhile by whoever writes it.
            continue
        if stat.S_ISREG(status.st_mode):
            total_bytes += status.st_size
    return total_bytes
