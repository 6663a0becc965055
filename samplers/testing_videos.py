"""Videos of the conformance kit, made of arrays: small, awkward, the same for the same arguments.

Import them from `samplers.testing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from samplers.contract import (
    ContractViolationError,
    FeaturesMissingError,
    FloatArray,
    IndexArray,
    Scene,
    TimeArray,
)

ScalarT = TypeVar("ScalarT", bound=np.generic)

ScoreKind: TypeAlias = Literal[
    "cosine", "constant", "tied", "nan", "all-nan", "infinite", "minus-infinite", "spike"
]
EmbeddingKind: TypeAlias = Literal[
    "drifting", "equal", "duplicates", "zero-rows", "nan-rows", "infinite-rows"
]


_QUERYLESS = (
    "uses_query is False, so no vector of the question is fetched, yet select asked for {}; "
    "declare uses_query = True"
)


@dataclass(frozen=True, slots=True, eq=False)
class InMemoryVideo:
    """A `VideoHandle` over arrays, every one of them read-only. `make_video` builds one."""

    video_id: str
    timestamps_s: TimeArray
    candidates: IndexArray
    embeddings: FloatArray | None
    """float32 `[C, D]`, the same for every encoder name; None: the video has no features."""
    fixed_scores: FloatArray | None = None
    """float32 `[C]`, given for every query instead of cosines."""

    @property
    def num_frames(self) -> int:
        return len(self.timestamps_s)

    def image_embeddings(self, encoder: str) -> FloatArray:
        if self.embeddings is None:
            raise FeaturesMissingError(f"video {self.video_id} has no features in {encoder!r}")
        return self.embeddings

    def query_embedding(self, encoder: str, query: str) -> FloatArray:
        """A unit vector that depends on the text alone."""
        return made_query_vector(query, self.image_embeddings(encoder).shape[1])

    def scores(self, encoder: str, query: str) -> FloatArray:
        if self.fixed_scores is not None:
            return self.fixed_scores
        with np.errstate(invalid="ignore"):
            cosines: FloatArray = self.image_embeddings(encoder) @ self.query_embedding(
                encoder, query
            )
        return read_only(cosines)

    def scenes(self, num_scenes: int) -> list[Scene]:
        """Shots of uneven length that cover the video; fewer when it has fewer frames."""
        inner = (np.linspace(0, 1, num_scenes + 1)[1:-1] ** 1.5 * self.num_frames).astype(int)
        edges = [0, *sorted({int(edge) for edge in inner if edge > 0}), self.num_frames]
        return [Scene(start, end) for start, end in pairwise(edges)]

    def without_query(self) -> QuerylessVideo:
        """The same video, as the service hands it out where the question's vector is not had."""
        arrays = (self.timestamps_s, self.candidates, self.embeddings, self.fixed_scores)
        return QuerylessVideo(self.video_id, *arrays)

    def broken_scenes(self) -> dict[str, list[Scene]]:
        """Shots as no index writes them, by what is wrong; a sampler survives them all the same."""
        end = self.num_frames
        third, half = end // 3, end // 2
        return {
            "no-shots": [],
            "overlapping-shots": [Scene(0, 2 * third), Scene(third, end), Scene(half, half + 1)],
            "gapped-shots": [Scene(third // 2, third), Scene(2 * third, end - 1)],
            "outside-shots": [
                Scene(-9, -4),
                Scene(-4, half),
                Scene(half, end + 50),
                Scene(end + 50, end + 90),
            ],
            "empty-shots": [Scene(half, half), Scene(half, half), Scene(half, end)],
            "unsorted-shots": self.scenes(5)[::-1],
        }


def make_video(
    num_candidates: int = 60,
    *,
    dimension: int = 16,
    seed: int = 0,
    score_kind: ScoreKind = "cosine",
    embedding_kind: EmbeddingKind = "drifting",
    has_features: bool = True,
) -> InMemoryVideo:
    """A video whose pictures drift slowly and cut a few times, with three frames per candidate.

    The same arguments give the same video. `score_kind` replaces the cosines by scores that are
    constant, two-valued, one-hot or in part (or all) not finite; `embedding_kind` makes rows equal,
    zero, NaN or infinite, and the cosines with them.
    """
    rng = np.random.default_rng(seed)
    num_frames = 3 * num_candidates + 2
    candidates = np.sort(rng.choice(num_frames, num_candidates, replace=False)).astype(np.int64)
    intervals_s = rng.uniform(0.01, 0.6, num_frames)
    embeddings = _embeddings(rng, (num_candidates, dimension), embedding_kind)
    return InMemoryVideo(
        video_id=sha256(f"{num_candidates}:{dimension}:{seed}".encode()).hexdigest(),
        timestamps_s=read_only(np.cumsum(intervals_s) - intervals_s[0]),
        candidates=read_only(candidates),
        embeddings=embeddings if has_features else None,
        fixed_scores=_fixed_scores(rng, num_candidates, score_kind) if has_features else None,
    )


class QuerylessVideo(InMemoryVideo):
    """An `InMemoryVideo` as a sampler meets it whose class says `uses_query = False`."""

    def query_embedding(self, encoder: str, query: str) -> FloatArray:
        del encoder, query
        raise ContractViolationError(_QUERYLESS.format("query_embedding"))

    def scores(self, encoder: str, query: str) -> FloatArray:
        del encoder, query
        raise ContractViolationError(_QUERYLESS.format("scores"))


def made_query_vector(query: str, dimension: int) -> FloatArray:
    """float32 `[D]`, read-only: a unit vector that depends on the text alone."""
    seed = int.from_bytes(sha256(query.encode()).digest()[:8])
    vector = np.random.default_rng(seed).standard_normal((1, dimension))
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    return read_only(unit[0])


def read_only(array: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """`array` itself, write-protected."""
    array.flags.writeable = False
    return array


def _embeddings(
    rng: np.random.Generator, shape: tuple[int, int], embedding_kind: EmbeddingKind
) -> FloatArray:
    rows = _drifting(rng, shape)
    if embedding_kind == "equal":
        rows[:] = rows[:1]
    elif embedding_kind == "duplicates":
        rows = rows[np.arange(len(rows)) // 8]
    elif embedding_kind == "zero-rows":
        rows[::4] = 0.0
    elif embedding_kind == "nan-rows":
        rows[::5] = np.nan
    elif embedding_kind == "infinite-rows":
        # Neighbours of either sign: their difference and their product are no numbers.
        rows[::5, 0], rows[1::5, 0] = np.inf, -np.inf
    return read_only(rows)


def _drifting(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    steps = rng.standard_normal(shape)
    is_cut = rng.random(len(steps)) < 0.08
    is_cut[:1] = True
    pictures = np.empty_like(steps)
    for row in range(len(steps)):
        pictures[row] = steps[row] if is_cut[row] else 0.95 * pictures[row - 1] + 0.1 * steps[row]
    unit: TimeArray = pictures / np.linalg.norm(pictures, axis=1, keepdims=True)
    return unit.astype(np.float32)


def _fixed_scores(
    rng: np.random.Generator, num_rows: int, score_kind: ScoreKind
) -> FloatArray | None:
    if score_kind == "cosine":
        return None
    scores = np.full(num_rows, 0.25, dtype=np.float32)
    odd = {"nan": np.nan, "infinite": np.inf, "minus-infinite": -np.inf}.get(score_kind)
    if odd is not None:
        scores = rng.random(num_rows).astype(np.float32)
        scores[num_rows // 2 : num_rows // 2 + 1] = odd
    elif score_kind == "all-nan":
        scores[:] = np.nan
    elif score_kind == "tied":
        scores[::3] = 0.5
    elif score_kind == "spike":
        scores[num_rows // 3 : num_rows // 3 + 1] = 0.9
    return read_only(scores)
