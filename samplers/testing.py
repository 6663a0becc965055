"""The conformance kit: run it on your own sampler in one line, `check_sampler(MySampler)`.

It needs nothing but numpy, so it works under any test runner. Its videos are small and awkward on
purpose: candidates that are not `0, 1, 2, ...`, uneven timestamps, read-only arrays, one candidate
only, scores that are constant, tied or NaN, features that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise, product
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from samplers.code_scan import forbidden_reads
from samplers.contract import (
    ContractViolationError,
    FeaturesMissingError,
    FloatArray,
    FrameScorer,
    IndexArray,
    Sampler,
    SamplerOptions,
    Scene,
    TimeArray,
    check_selection,
)

ScalarT = TypeVar("ScalarT", bound=np.generic)

ScoreKind: TypeAlias = Literal["cosine", "constant", "tied", "nan", "spike"]

QUERIES = (None, "Où est le chat ? 猫はどこ")


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
        dimension = self.image_embeddings(encoder).shape[1]
        seed = int.from_bytes(sha256(query.encode()).digest()[:8])
        vector = np.random.default_rng(seed).standard_normal((1, dimension))
        unit = (vector / np.linalg.norm(vector)).astype(np.float32)
        return _read_only(unit[0])

    def scores(self, encoder: str, query: str) -> FloatArray:
        if self.fixed_scores is not None:
            return self.fixed_scores
        cosines: FloatArray = self.image_embeddings(encoder) @ self.query_embedding(encoder, query)
        return _read_only(cosines)

    def scenes(self, num_scenes: int) -> list[Scene]:
        """Shots of uneven length that cover the video; fewer when it has fewer frames."""
        inner = (np.linspace(0, 1, num_scenes + 1)[1:-1] ** 1.5 * self.num_frames).astype(int)
        edges = [0, *sorted({int(edge) for edge in inner if edge > 0}), self.num_frames]
        return [Scene(start, end) for start, end in pairwise(edges)]


def make_video(
    num_candidates: int = 60,
    *,
    dimension: int = 16,
    seed: int = 0,
    score_kind: ScoreKind = "cosine",
    has_features: bool = True,
) -> InMemoryVideo:
    """A video whose pictures drift slowly and cut a few times, with three frames per candidate.

    The same arguments give the same video. `score_kind` replaces the cosines by constant,
    two-valued, partly NaN or one-hot scores.
    """
    rng = np.random.default_rng(seed)
    num_frames = 3 * num_candidates + 2
    candidates = np.sort(rng.choice(num_frames, num_candidates, replace=False)).astype(np.int64)
    intervals_s = rng.uniform(0.01, 0.6, num_frames)
    return InMemoryVideo(
        video_id=sha256(f"{num_candidates}:{dimension}:{seed}".encode()).hexdigest(),
        timestamps_s=_read_only(np.cumsum(intervals_s) - intervals_s[0]),
        candidates=_read_only(candidates),
        embeddings=_drifting(rng, num_candidates, dimension) if has_features else None,
        fixed_scores=_fixed_scores(rng, num_candidates, score_kind) if has_features else None,
    )


def check_sampler(
    sampler: Callable[..., Sampler],
    options: SamplerOptions | None = None,
    *,
    encoder: str = "default",
    scorer: FrameScorer | None = None,
) -> None:
    """Raise `ContractViolationError` naming the broken rule and the case, or return None.

    `sampler` is a sampler class (built with `options`, or with its defaults) or a function without
    arguments that builds a sampler.
    """
    options_class = getattr(sampler, "Options", None)

    def build() -> Sampler:
        if options_class is None:
            return sampler()
        return sampler(options or options_class(), encoder=encoder, scorer=scorer)

    built = build()
    _check_declaration(built)
    for case in awkward_cases():
        _check_case(build, case)
    _check_threads(built)
    reads = forbidden_reads(type(built))
    if reads:
        raise ContractViolationError(f"a sampler does not read {'; '.join(reads)}")


@dataclass(frozen=True, slots=True)
class Case:
    """One call of `select`."""

    name: str
    video: InMemoryVideo
    query: str | None
    budget: int
    scenes: list[Scene] | None

    def __str__(self) -> str:
        shots = "scenes=None" if self.scenes is None else f"{len(self.scenes)} scenes"
        size = f"C={len(self.video.candidates)}"
        return f"{self.name} video, {size}, query={self.query!r}, budget={self.budget}, {shots}"


def awkward_cases() -> Iterator[Case]:
    """Every call that the kit makes."""
    kinds: tuple[ScoreKind, ...] = ("cosine", "constant", "tied", "nan", "spike")
    videos = {f"{kind}-score": make_video(40, seed=3, score_kind=kind) for kind in kinds}
    videos["featureless"] = make_video(40, seed=3, has_features=False)
    videos["one-candidate"] = make_video(1)
    videos["two-candidate"] = make_video(2)
    videos["longer"] = make_video(301, seed=5)
    for name, video in videos.items():
        count = len(video.candidates)
        budgets = sorted({0, 1, 2, 3, 13, count - 1, count, count + 1, 10_000})
        shots = (None, video.scenes(7), video.scenes(10_000))
        for budget, query, scenes in product(budgets, QUERIES, shots):
            yield Case(name, video, query, budget, scenes)


def _check_declaration(sampler: Sampler) -> None:
    kinds = {"id": str, "version": str, "fills_budget": bool, "uses_query": bool, "encoder": str}
    for name, kind in kinds.items():
        if not isinstance(getattr(sampler, name, None), kind):
            raise ContractViolationError(f"{name} must be declared, as a {kind.__name__}")
    if not isinstance(getattr(sampler, "options", None), SamplerOptions):
        raise ContractViolationError("options must be an instance of SamplerOptions")


def _check_case(build: Callable[[], Sampler], case: Case) -> None:
    first = _selection(build(), case)
    again = build()
    # Another call in between: what a sampler remembers must not change what it answers.
    _selection(again, replace(case, budget=case.budget + 1))
    second = _selection(again, case)
    if first != second:
        raise ContractViolationError(f"the same input gave {first} and then {second} ({case})")


def _check_threads(sampler: Sampler) -> None:
    cases = [case for case in awkward_cases() if case.name == "longer"][::5]
    alone = [_selection(sampler, case) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda case: _selection(sampler, case), cases))
    if alone != together:
        raise ContractViolationError("threads that share one sampler got different selections")


def _selection(sampler: Sampler, case: Case) -> list[int] | None:
    """The checked indices, or None where missing features were reported as such."""
    scenes = None if case.scenes is None else list(case.scenes)
    before = _fingerprint(case.video)
    try:
        indices = sampler.select(case.video, case.query, case.budget, scenes)
        check_selection(indices, case.video, case.budget, fills_budget=sampler.fills_budget)
    except FeaturesMissingError as exc:
        if case.video.embeddings is not None:
            raise ContractViolationError(f"features are there, yet: {exc} ({case})") from exc
        return None
    except ContractViolationError as exc:
        raise ContractViolationError(f"{exc} ({case})") from exc
    except Exception as exc:
        raise ContractViolationError(f"select raised {type(exc).__name__}: {exc} ({case})") from exc
    if scenes != case.scenes or _fingerprint(case.video) != before:
        raise ContractViolationError(f"select changed its inputs ({case})")
    return indices


def _fingerprint(video: InMemoryVideo) -> int:
    arrays = (video.timestamps_s, video.candidates, video.embeddings, video.fixed_scores)
    return hash(tuple(None if array is None else array.tobytes() for array in arrays))


def _drifting(rng: np.random.Generator, num_rows: int, dimension: int) -> FloatArray:
    steps = rng.standard_normal((num_rows, dimension))
    is_cut = rng.random(num_rows) < 0.08
    pictures = np.empty_like(steps)
    pictures[0] = steps[0]
    for row in range(1, num_rows):
        pictures[row] = steps[row] if is_cut[row] else 0.95 * pictures[row - 1] + 0.1 * steps[row]
    unit = pictures / np.linalg.norm(pictures, axis=1, keepdims=True)
    return _read_only(unit.astype(np.float32))


def _fixed_scores(
    rng: np.random.Generator, num_rows: int, score_kind: ScoreKind
) -> FloatArray | None:
    if score_kind == "cosine":
        return None
    scores = np.full(num_rows, 0.25, dtype=np.float32)
    if score_kind == "tied":
        scores[::3] = 0.5
    elif score_kind == "nan":
        scores = rng.random(num_rows).astype(np.float32)
        scores[num_rows // 2] = np.nan
    elif score_kind == "spike":
        scores[num_rows // 3] = 0.9
    return _read_only(scores)


def _read_only(array: NDArray[ScalarT]) -> NDArray[ScalarT]:
    array.flags.writeable = False
    return array
