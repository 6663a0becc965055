"""Where everything lies under the data folder. Keys carry format versions."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

FORMAT = "v1"
MAX_SOCKET_PATH = 100
"""Bytes; Linux allows 107 in the address of a Unix socket."""


@dataclass(frozen=True, slots=True)
class DataLayout:
    """Paths of one data folder. A video's derived data share a folder: eviction is one rename."""

    root: Path

    @property
    def catalogue(self) -> Path:
        return self.root / "catalogue.sqlite"

    @property
    def ledger(self) -> Path:
        """Used unless FRAMEGATE_LEDGER_URL names another database."""
        return self.root / "ledger.sqlite"

    @property
    def temporary(self) -> Path:
        """Uploads and derived data in the making, on the same file system; emptied at start-up."""
        return self.root / "tmp"

    @property
    def run(self) -> Path:
        """Sockets and process records of the running service."""
        return self.root / "run"

    @property
    def encoder_socket(self) -> Path:
        """Socket of the encoder process; elsewhere where the data folder's path is too long."""
        path = self.run / "encoder.sock"
        if len(str(path)) <= MAX_SOCKET_PATH:
            return path
        digest = hashlib.sha256(str(self.root).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"framegate-{digest}.sock"

    @property
    def models(self) -> Path:
        return self.root / "models"

    def video_bytes(self, video_id: str) -> Path:
        return self.root / "videos" / video_id[:2] / video_id

    def derived(self, video_id: str) -> Path:
        return self.root / "derived" / video_id[:2] / video_id

    def frames(self, video_id: str, fps: float, decode_version: str) -> Path:
        """Folder of the frame table and the candidates' pictures."""
        return self.derived(video_id) / f"frames-{FORMAT}@{fps:g}fps@{decode_version}"

    def scenes(self, video_id: str, detector_version: str) -> Path:
        return self.derived(video_id) / f"scenes-{FORMAT}@{detector_version}.json"

    def embeddings(self, video_id: str, fps: float, encoder_id: str) -> Path:
        """float16 `[C, D]`, L2-normalised."""
        return self.derived(video_id) / f"embeddings-{FORMAT}@{fps:g}fps@{encoder_id}.npy"

    def tokens(self, video_id: str, fps: float, encoder_id: str) -> Path:
        """float16 `[C, P, D_v]`: label distributions (`demo` only)."""
        return self.derived(video_id) / f"tokens-{FORMAT}@{fps:g}fps@{encoder_id}.npy"

    def model_scores(self, video_id: str, namespace: str) -> Path:
        """What a scoring model said about the video's pictures."""
        return self.derived(video_id) / f"model-scores-{FORMAT}@{namespace}.sqlite"

    def create(self) -> None:
        """Make the fixed folders. Raises OSError when the data folder cannot be written."""
        for folder in (self.temporary, self.run, self.models):
            folder.mkdir(parents=True, exist_ok=True)
