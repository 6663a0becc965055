"""The frame store: one folder a video holds its frame table and its candidates' pictures.

    table.json        everything of `FrameTable` that is one value
    timestamps.npy    float64 [T]
    candidates.npy    int64 [C]
    pictures.pack     the JPEGs of the candidates, one after the other
    offsets.npy       int64 [C + 1]: picture r is bytes offsets[r] .. offsets[r + 1] of the pack

The shots lie beside it in a JSON file of their own, because they have a version of their own.
Everything is written under a temporary name, synced to disk and then renamed by `publish`: what is
visible is whole.
"""

from __future__ import annotations

import array
import errno
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Self

import cv2
import numpy as np
import numpy.typing as npt

from app.stores.array_file import open_array
from app.stores.layout import FORMAT, DataLayout
from samplers.contract import IndexArray, Scene, TimeArray

TABLE = "table.json"
TIMESTAMPS = "timestamps.npy"
CANDIDATES = "candidates.npy"
PICTURES = "pictures.pack"
OFFSETS = "offsets.npy"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FrameTable:
    """The time of every frame of a video's one used stream, and which frames are candidates."""

    video_id: str
    fps: float
    """Of the sampling grid, after halving (not of the video)."""
    decode_version: str
    detector_version: str
    timestamps_s: TimeArray
    """float64 `[T]`, seconds, strictly increasing, zero at the first shown frame, read-only."""
    candidates: IndexArray
    """int64 `[C]`, strictly increasing, read-only; row r's picture shows frame `candidates[r]`."""
    width: int
    """Pixels of the first frame as it is shown: upright, with square pixels."""
    height: int
    start_s: float
    """The file's own time of its first shown frame, where timestamps_s is zero."""
    duration_s: float
    """The last frame's time plus the median interval."""
    stream_index: int
    rotation: int
    """Counter-clockwise degrees (0, 90, 180, 270) that turn the first frame upright."""
    is_hdr: bool
    """The transfer is PQ or HLG; pictures are not tone-mapped."""
    container: str
    codec: str
    num_damaged_packets: int
    num_repaired_timestamps: int

    @property
    def num_frames(self) -> int:
        """T."""
        return len(self.timestamps_s)

    @property
    def num_candidates(self) -> int:
        """C."""
        return len(self.candidates)

    def candidate_row(self, frame_index: int) -> int | None:
        """The row of a frame among the candidates; None when it is not one of them."""
        row = int(np.searchsorted(self.candidates, frame_index))
        if row < len(self.candidates) and int(self.candidates[row]) == frame_index:
            return row
        return None


_ARRAYS = ("timestamps_s", "candidates")
_VALUES = tuple(field.name for field in fields(FrameTable) if field.name not in _ARRAYS)


def write_frame_table(folder: Path, table: FrameTable) -> None:
    """Write all but the pictures into `folder` (not yet visible) and sync it. Raises OSError."""
    _write_array(folder / TIMESTAMPS, table.timestamps_s)
    _write_array(folder / CANDIDATES, table.candidates)
    values = {name: getattr(table, name) for name in _VALUES}
    _write_synced(folder / TABLE, json.dumps(values, indent=1).encode())
    _sync_folder(folder)


def read_frame_table(folder: Path) -> FrameTable:
    """The frame table of a published folder, arrays memory-mapped. Raises FileNotFoundError."""
    values = json.loads((folder / TABLE).read_bytes())
    return FrameTable(
        **values,
        timestamps_s=open_array(folder / TIMESTAMPS, mmap_mode="r"),
        candidates=open_array(folder / CANDIDATES, mmap_mode="r"),
    )


def find_frames(layout: DataLayout, video_id: str, decode_version: str) -> Path | None:
    """The video's folder of frames, whatever its fps; None when it has none in this decode version.

    A decode version fixes the fps policy, hence one video has at most one such folder.
    """
    pattern = f"frames-{FORMAT}@*fps@{decode_version}"
    return next(iter(sorted(layout.derived(video_id).glob(pattern))), None)


class PackWriter:
    """Writes the pictures of the candidates one by one; memory does not grow with their number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = (folder / PICTURES).open("w+b")
        self._offsets = array.array("q", [0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def append(self, jpeg: bytes) -> None:
        """Add the picture of the next row."""
        self._file.write(jpeg)
        self._offsets.append(self._offsets[-1] + len(jpeg))

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every picture but those of `rows` (strictly increasing), moving one at a time."""
        kept = array.array("q", [0])
        for row in rows:
            self._file.seek(self._offsets[row])
            jpeg = self._file.read(self._offsets[row + 1] - self._offsets[row])
            self._file.seek(kept[-1])
            self._file.write(jpeg)
            kept.append(kept[-1] + len(jpeg))
        self._file.truncate(kept[-1])
        self._file.seek(kept[-1])
        self._offsets = kept

    def finish(self) -> None:
        """Write the offsets and sync the pack."""
        self._file.flush()
        os.fsync(self._file.fileno())
        _write_array(self._folder / OFFSETS, np.array(self._offsets, dtype=np.int64))


class PicturePack:
    """The candidates' pictures of a published folder: upright, square pixels, JPEG. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._offsets: IndexArray = open_array(folder / OFFSETS)
        self._bytes = np.memmap(folder / PICTURES, dtype=np.uint8, mode="r")

    @property
    def num_pictures(self) -> int:
        """C."""
        return len(self._offsets) - 1

    def jpeg(self, row: int) -> bytes:
        """The stored picture of candidate row `row`. Raises IndexError outside `0 .. C - 1`."""
        if not 0 <= row < self.num_pictures:
            raise IndexError(f"picture row {row} is outside 0..{self.num_pictures - 1}")
        return self._bytes[self._offsets[row] : self._offsets[row + 1]].tobytes()

    def rgb(self, row: int) -> npt.NDArray[np.uint8]:
        """uint8 `[H, W, 3]`, the pixels of candidate row `row`. Raises IndexError."""
        encoded = np.frombuffer(self.jpeg(row), dtype=np.uint8)
        pixels = cv2.imdecode(encoded, cv2.IMREAD_COLOR_RGB)
        if pixels is None:
            raise OSError(f"picture row {row} of the pack is damaged")
        return np.asarray(pixels, dtype=np.uint8)


def write_scenes(path: Path, scenes: Sequence[Scene]) -> None:
    """Write the shots to `path` (not yet visible) and sync it. Raises OSError."""
    pairs = [[scene.start_frame, scene.end_frame] for scene in scenes]
    _write_synced(path, json.dumps(pairs, separators=(",", ":")).encode())


def read_scenes(path: Path) -> list[Scene]:
    """The shots of a video: sorted, disjoint, covering all frames. Raises FileNotFoundError."""
    return [Scene(start, end) for start, end in json.loads(path.read_bytes())]


def publish(temporary: Path, final: Path) -> None:
    """Make a synced file or folder visible under its final name. Raises OSError.

    A folder that is already there has the same content (keys digest all that shapes it): it is
    kept, so that readers which have it mapped never see it vanish. A file is replaced.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(temporary)
    _sync_folder(final.parent)


def publish_detector_version(temporary: Path, final: Path) -> None:
    """Replace a published folder's table by one that names a newer detector. Raises OSError."""
    (temporary / TABLE).replace(final / TABLE)
    _sync_folder(final)


def _write_array(path: Path, values: npt.NDArray[np.generic]) -> None:
    with path.open("wb") as file:
        np.save(file, values)
        file.flush()
        os.fsync(file.fileno())


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
