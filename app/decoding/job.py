"""What the gateway tells a decode worker: limits, shapes and the versions that follow from them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

DECODE_BEHAVIOUR = 1
"""Raised whenever the same bytes would give another frame table or other pictures: stream rule,
timestamp repair, grid, rotation, pixel aspect, colour, resize filter, JPEG encoder."""

DETECTOR_BEHAVIOUR = 1
"""Raised whenever the same frames would give other shots with the same settings."""

SHOT_THRESHOLD = 27.0
SHOT_MIN_LENGTH_S = 0.6
SHOT_RATE_FPS = 10.0
SHOT_SIDE_PX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    """Limits and shapes of decoding; the fields are settings of the same or a similar name."""

    max_frame_pixels: int
    max_total_pixels: int
    timeout_s: float
    """Wall time of one worker."""
    memory_bytes: int
    """What one worker may map beyond its own code and libraries."""
    threads: int
    picture_side_px: int
    """Longest side of a stored picture; pictures are never enlarged."""
    picture_quality: int
    """JPEG quality, 30..100."""
    fps_max: float
    """The grid starts here, and is halved ..."""
    fps_min: float
    """... but never below this, ..."""
    candidate_target: int
    """... each time there are more candidates than this."""

    @property
    def decode_version(self) -> str:
        """Digests all that shapes frame tables and pictures, so that a change is a new key.

        It also names the fps policy: one video has one grid in one decode version.
        """
        shape = (
            self.picture_side_px,
            self.picture_quality,
            self.fps_max,
            self.fps_min,
            self.candidate_target,
        )
        return f"d{DECODE_BEHAVIOUR}-{_digest(DECODE_BEHAVIOUR, *shape)}"

    @property
    def detector_version(self) -> str:
        """Digests detector, thresholds, rate and size of shot detection."""
        shape = (SHOT_THRESHOLD, SHOT_MIN_LENGTH_S, SHOT_RATE_FPS, SHOT_SIDE_PX)
        return (
            f"content{DETECTOR_BEHAVIOUR}-{_digest('ContentDetector', DETECTOR_BEHAVIOUR, *shape)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeJob:
    """One video for one worker."""

    video_id: str
    source: Path
    folder: Path
    """Exists, is empty and temporary: the worker fills `frames/` and `scenes.json` in it."""
    parent_pid: int
    """The worker ends when this process is no longer its parent."""
    trace_context: dict[str, str]
    """W3C trace context of the request that caused the job; stands in the worker's log lines."""
    config: DecodeConfig

    @property
    def frames_folder(self) -> Path:
        return self.folder / "frames"

    @property
    def scenes_file(self) -> Path:
        return self.folder / "scenes.json"

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        config = DecodeConfig(**values.pop("config"))
        source, folder = Path(values.pop("source")), Path(values.pop("folder"))
        return cls(source=source, folder=folder, config=config, **values)


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]
