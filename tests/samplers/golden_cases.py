"""Golden cases: what the authors' own programs returned, on scores that are generated from seeds.

`golden/` beside this file holds every small case and a few large ones; the full set lies outside
the project, and tests that need it skip when it is absent.
"""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from samplers.contract import TimeArray

GoldenCase: TypeAlias = dict[str, Any]

HERE = Path(__file__).parent / "golden"


def golden_cases(file: Path) -> list[GoldenCase]:
    """Every case of one file, small and large."""
    content = json.loads(file.read_text())
    return [*content["tiny"], *content["large"]]


def case_name(case: GoldenCase) -> str:
    if "id" in case:
        return str(case["id"])
    rest = "-".join(str(case[k]) for k in ("seed", "budget", "all_depth", "power") if k in case)
    return f"{case['gen']}-{rest}"


def case_scores(case: GoldenCase) -> TimeArray:
    """float64 scores of a case; generated ones are compared with the case's digest first."""
    if "scores" in case:
        return np.array(case["scores"], dtype=np.float64)
    scores = generated_scores(case["gen"], case["seed"], case["T"])
    text = ",".join(f"{score:.6f}" for score in scores)
    assert sha256(text.encode()).hexdigest() == case["sha256_scores"]
    np.testing.assert_allclose(scores[:4], case["head"], atol=1e-8)
    return scores


def case_pictures(case: GoldenCase) -> TimeArray:
    """float64 `[T, D]`, unit rows: the embeddings of a case, given or those behind its scores."""
    if "embeddings_unnormalised" in case:
        given = np.array(case["embeddings_unnormalised"])
        pictures: TimeArray = given / np.linalg.norm(given, axis=1, keepdims=True)
        return pictures
    return _drifting_pictures(np.random.default_rng(case["seed"]), case["T"])[0]


@lru_cache
def generated_scores(kind: str, seed: int, num_rows: int) -> TimeArray:
    """float64 `[num_rows]` of generator `unif`, `spiky` or `cos`, for this and any other seed."""
    rng = np.random.default_rng(seed)
    if kind == "unif":
        return rng.random(num_rows)
    if kind == "spiky":
        return _spiky(rng, num_rows)
    pictures, question = _drifting_pictures(rng, num_rows)
    scores: TimeArray = (pictures * question).sum(axis=1)
    return scores


def _spiky(rng: np.random.Generator, num_rows: int) -> TimeArray:
    scores = 0.05 * rng.random(num_rows)
    for centre in rng.integers(0, num_rows, 6):
        scores = scores + np.exp(-0.5 * ((np.arange(num_rows) - centre) / 8) ** 2)
    return scores


def _drifting_pictures(rng: np.random.Generator, num_rows: int) -> tuple[TimeArray, TimeArray]:
    """Unit vectors `[num_rows, 64]` of pictures, and `[64]` of a question about one of them."""
    noise = rng.standard_normal((num_rows, 64))
    pictures = noise.copy()
    for row in range(1, num_rows):
        pictures[row] = 0.9 * pictures[row - 1] + np.sqrt(1 - 0.9 * 0.9) * noise[row]
    target = int(rng.integers(0, num_rows))
    question = pictures[target] + 0.5 * rng.standard_normal(64)
    pictures /= np.linalg.norm(pictures, axis=1, keepdims=True)
    question /= np.linalg.norm(question)
    return pictures, question
