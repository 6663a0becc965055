"""The encoders that the needle benchmark can look through, and a store of what they saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from PIL import Image

from app.encoders.conse import ConseEncoder, ConseWeights
from app.encoders.contract import Picture
from app.encoders.torchvision_ops import define_missing_torchvision_ops
from app.stores.features import unit_rows
from benchmarks.needle_pictures import RENDERING, TAKE_FPS, Take
from samplers.contract import FloatArray

DEMO = "demo"
OPEN_CLIP = "open_clip"
BATCH = 16


class NeedleEncoder(Protocol):
    """One embedding space for pictures and questions."""

    encoder_id: str

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        """float32 `[n, D]`, L2-normalised."""
        ...

    def question(self, text: str) -> FloatArray:
        """float32 `[D]`, L2-normalised."""
        ...


class DemoEncoder:
    """The `demo` profile's own: ConSE over EfficientNet-lite0 and MiniLM."""

    def __init__(self, cache: Path) -> None:
        self.conse = ConseEncoder(ConseWeights.installed(), "needles", cache)
        self.encoder_id = self.conse.info.encoder_id

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        return unit_rows(self.conse.encode_pictures(pictures).embeddings)

    def question(self, text: str) -> FloatArray:
        return self.conse.encode_query(text).vector


class OpenClipEncoder:
    """Any model of open_clip: `pretrained` is a tag whose weights are present, or their file."""

    def __init__(self, model: str, pretrained: str) -> None:
        define_missing_torchvision_ops()
        # Imported here: it costs seconds, and the demo's encoder does without.
        import open_clip  # noqa: PLC0415

        self._model, _, self._prepared = open_clip.create_model_and_transforms(
            model, pretrained=pretrained
        )
        self._model.eval()
        self._tokens = open_clip.get_tokenizer(model)
        file = Path(pretrained)
        # Other weights in the same place are another space; their time tells, cheaply.
        weights = (pretrained, file.stat().st_mtime_ns if file.is_file() else 0)
        self.encoder_id = f"{model}@{sha256(repr(weights).encode()).hexdigest()[:8]}"

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        rows = []
        with torch.inference_mode():
            for start in range(0, len(pictures), BATCH):
                batch = [
                    self._prepared(Image.fromarray(picture))
                    for picture in pictures[start : start + BATCH]
                ]
                rows.append(self._model.encode_image(torch.stack(batch), normalize=True))
        return unit_rows(torch.cat(rows).numpy().astype(np.float16))

    def question(self, text: str) -> FloatArray:
        with torch.inference_mode():
            vector = self._model.encode_text(self._tokens([text]), normalize=True)[0]
        question: FloatArray = vector.float().numpy()
        return question


def load_encoder(name: str, cache: Path) -> NeedleEncoder:
    """`demo`, or `open_clip:MODEL:PRETRAINED`. Raises ValueError."""
    if name == DEMO:
        return DemoEncoder(cache)
    kind, _, rest = name.partition(":")
    model, _, pretrained = rest.partition(":")
    if kind != OPEN_CLIP or not model or not pretrained:
        raise ValueError(f"{name!r} is neither {DEMO!r} nor '{OPEN_CLIP}:MODEL:PRETRAINED'")
    return OpenClipEncoder(model, pretrained)


@dataclass(frozen=True, slots=True)
class SeenTakes:
    """Embeddings of takes, each computed once and kept in a folder."""

    folder: Path
    encoder_id: str

    def file(self, take: Take) -> Path:
        name = f"{take.subject}-{take.number}-{RENDERING}.npy"
        return self.folder / self.encoder_id / name

    def has(self, take: Take) -> bool:
        return self.file(take).is_file()

    def rows(self, take: Take, fps: int) -> FloatArray:
        """float32 `[duration_s * fps, D]`, `fps` 1 or 2. Raises OSError when it was not seen."""
        return _loaded(self.file(take))[:: TAKE_FPS // fps]

    def see(self, take: Take, encoder: NeedleEncoder) -> None:
        path = self.file(take)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npy")
        np.save(part, encoder.pictures(take.pictures()))
        part.replace(path)


@cache
def _loaded(path: Path) -> FloatArray:
    """Kept in memory: the takes of all videos together are some tens of megabytes."""
    rows: FloatArray = np.load(path)
    return rows
