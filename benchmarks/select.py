"""How long `select()` takes on an hour and on thirty hours of candidates.

    python -m benchmarks.select

C = 3,600 and 108,000 candidates, D = 1152, budget 64, scores included: every call computes them
anew. The named alternative in the same run is top-k: the same product and a full sort of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.report import append_result
from samplers.registry import load_registry
from samplers.testing import InMemoryVideo, make_video

DIMENSION = 1152
BUDGET = 64
QUERY = "what happens?"
ENCODER = "default"
CALLS_BY_SIZE = {3_600: 31, 108_000: 9}


def median_ms(call: Callable[[], object], num_calls: int) -> float:
    call()
    times_s = []
    for _ in range(num_calls):
        started = perf_counter()
        call()
        times_s.append(perf_counter() - started)
    return 1000 * median(times_s)


def measure(num_candidates: int, num_calls: int) -> list[str]:
    video = make_video(num_candidates, dimension=DIMENSION)
    scenes = video.scenes(max(2, num_candidates // 12))
    top_k_ms = median_ms(partial(top_k, video), num_calls)
    lines = [f"| top-k (product, full sort) | {num_candidates:,} | {top_k_ms:.2f} | 1.0 |"]
    registry = load_registry()
    for sampler_id in registry.ids:
        sampler = registry.build(sampler_id, {}, encoder=ENCODER)
        took_ms = median_ms(partial(sampler.select, video, QUERY, BUDGET, scenes), num_calls)
        lines.append(
            f"| {sampler_id} | {num_candidates:,} | {took_ms:.2f} | {took_ms / top_k_ms:.2f} |"
        )
    return lines


def top_k(video: InMemoryVideo) -> list[int]:
    best = np.argsort(-video.scores(ENCODER, QUERY), kind="stable")[:BUDGET]
    return sorted(int(index) for index in video.candidates[best])


def main() -> None:
    lines = ["| sampler | C | median ms | × top-k |", "|---|---|---|---|"]
    for num_candidates, num_calls in CALLS_BY_SIZE.items():
        lines += measure(num_candidates, num_calls)
    append_result(
        f"`select()` at D = {DIMENSION}, budget {BUDGET} (benchmarks/select.py)",
        [
            *lines,
            "",
            "Aim: uniform and score-only samplers ≤ 10 ms at 3,600, ≤ 60 ms at 108,000.",
        ],
    )


if __name__ == "__main__":
    main()
