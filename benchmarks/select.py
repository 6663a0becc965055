"""How long `select()` takes on one, three and thirty hours of candidates, and what it allocates.

    python -m benchmarks.select

C = 3,600, 10,800 and 108,000 candidates, D = 1152, budget 64, scores included: every call computes
them anew; the question's vector is there before, as it is in the service. Each number of BLAS
threads has a process of its own. The named alternative, measured in the same process, is top-k: the
same product and a full sort of it. Samplers that ask a model get the conformance kit's scorer,
which answers from memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.report import append_result
from samplers.contract import FloatArray
from samplers.registry import load_registry
from samplers.testing import InMemoryVideo, make_video
from samplers.testing_scorers import InMemoryScorer

DIMENSION = 1152
BUDGET = 64
QUERY = "what happens?"
ENCODER = "default"
SIZES = (3_600, 10_800, 108_000)
THREADS = (1, 2)
MOST_CALLS, FEWEST_CALLS, SECONDS_A_CASE = 31, 3, 4.0
TOP_K = "top-k (product, full sort)"

PAIRWISE = frozenset({"adard-key", "fused", "gift", "maxvol", "mdp3", "wfs"})
"""Samplers that compare candidates with each other; the others read scores, or less."""
SCORE_AIMS_MS = {3_600: 10.0, 108_000: 60.0}
PAIRWISE_AIMS_MS = {3_600: 150.0}


@dataclass(frozen=True, slots=True, eq=False)
class AskedVideo(InMemoryVideo):
    """A video whose question has its vector already; scores are computed at every call."""

    query_vector: FloatArray = field(kw_only=True)

    @classmethod
    def made(cls, num_candidates: int) -> AskedVideo:
        video = make_video(num_candidates, dimension=DIMENSION)
        return cls(
            video.video_id,
            video.timestamps_s,
            video.candidates,
            video.embeddings,
            query_vector=video.query_embedding(ENCODER, QUERY),
        )

    def query_embedding(self, encoder: str, query: str) -> FloatArray:
        del encoder, query
        return self.query_vector


@dataclass(frozen=True, slots=True)
class Reading:
    """One sampler on one video, with one number of BLAS threads."""

    threads: int
    sampler_id: str
    num_candidates: int
    took_ms: float
    allocated_mb: float
    asks_a_model: bool


def median_ms(call: Callable[[], object]) -> float:
    """Of as many calls as fit into some seconds, within bounds; one more warms up."""
    call()
    times_s: list[float] = []
    while len(times_s) < FEWEST_CALLS or (
        len(times_s) < MOST_CALLS and sum(times_s) < SECONDS_A_CASE
    ):
        started = perf_counter()
        call()
        times_s.append(perf_counter() - started)
    return 1000 * median(times_s)


def allocated_mb(call: Callable[[], object]) -> float:
    """Most that Python and numpy held at a time during one call."""
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def readings(threads: int, sizes: Sequence[int]) -> Iterator[Reading]:
    """In a process whose BLAS was told `threads`."""
    registry = load_registry()
    for num_candidates in sizes:
        video = AskedVideo.made(num_candidates)
        scenes = video.scenes(max(2, num_candidates // 12))
        calls: dict[str, Callable[[], object]] = {TOP_K: partial(top_k, video)}
        asking = set()
        for sampler_id in registry.ids:
            options = registry.get(sampler_id).parse_options({})
            scorer = InMemoryScorer(ENCODER) if options.uses_scorer else None
            asking |= {sampler_id} if options.uses_scorer else set()
            sampler = registry.build(sampler_id, {}, encoder=ENCODER, scorer=scorer)
            calls[sampler_id] = partial(sampler.select, video, QUERY, BUDGET, scenes)
        for name, call in calls.items():
            took_ms, peak_mb = median_ms(call), allocated_mb(call)
            yield Reading(threads, name, num_candidates, took_ms, peak_mb, name in asking)


def top_k(video: InMemoryVideo) -> list[int]:
    best = np.argsort(-video.scores(ENCODER, QUERY), kind="stable")[:BUDGET]
    return sorted(int(index) for index in video.candidates[best])


def measured(threads: int, sizes: Sequence[int]) -> list[Reading]:
    """The readings of a process of its own: BLAS reads its number of threads when it is loaded."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.select", "--readings", str(threads), *map(str, sizes)],
        env={**os.environ, **dict.fromkeys(names, str(threads))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [Reading(**json.loads(line)) for line in done.stdout.splitlines()]


def table(taken: Sequence[Reading]) -> list[str]:
    """Markdown: one row a sampler and size, one block of columns a number of threads."""
    by_key = {(r.threads, r.sampler_id, r.num_candidates): r for r in taken}
    threads = sorted({reading.threads for reading in taken})
    headings = [f"ms, {count} thread{'s' if count > 1 else ''} | × top-k" for count in threads]
    lines = [
        f"| sampler | C | {' | '.join(headings)} | MB | aim |",
        f"|---|---|{'---|---|' * len(threads)}---|---|",
    ]
    for reading in taken:
        if reading.threads != threads[0]:
            continue
        name, size = reading.sampler_id, reading.num_candidates
        cells = []
        for count in threads:
            took_ms = by_key[count, name, size].took_ms
            cells.append(f"{took_ms:.2f} | {took_ms / by_key[count, TOP_K, size].took_ms:.2f}")
        mb, aim = f"{reading.allocated_mb:.0f}", verdict(reading)
        lines.append(f"| {label(reading)} | {size:,} | {' | '.join(cells)} | {mb} | {aim} |")
    return lines


def label(reading: Reading) -> str:
    if reading.sampler_id == TOP_K:
        return TOP_K
    return f"`{reading.sampler_id}`{' (model answers at once)' if reading.asks_a_model else ''}"


def verdict(reading: Reading) -> str:
    """Whether the aim holds, where there is one."""
    if reading.asks_a_model or reading.sampler_id == TOP_K:
        return ""
    aims_ms = PAIRWISE_AIMS_MS if reading.sampler_id in PAIRWISE else SCORE_AIMS_MS
    aim_ms = aims_ms.get(reading.num_candidates)
    if aim_ms is None:
        return ""
    return f"≤ {aim_ms:.0f} ms: {'holds' if reading.took_ms <= aim_ms else '**missed**'}"


def growth_lines(taken: Sequence[Reading]) -> list[str]:
    """Exponents of the time's growth with C, between neighbouring sizes, on one thread."""
    first = min(reading.threads for reading in taken)
    by_sampler: dict[str, list[Reading]] = {}
    for reading in taken:
        if reading.threads == first:
            by_sampler.setdefault(label(reading), []).append(reading)
    sizes = [f"{reading.num_candidates:,}" for reading in by_sampler[TOP_K]]
    texts = []
    for name, of_sizes in by_sampler.items():
        exponents = [
            math.log(b.took_ms / a.took_ms) / math.log(b.num_candidates / a.num_candidates)
            for a, b in pairwise(of_sizes)
        ]
        texts.append(f"{name} {', '.join(f'{exponent:.1f}' for exponent in exponents)}")
    if len(sizes) < 2:
        return []
    steps = " → ".join(sizes)
    return [f"Time grows with C to the power of ({steps}, one thread): {'; '.join(texts)}."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one hour only; printed, not kept")
    parser.add_argument("--readings", nargs="+", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.readings:
        threads, *sizes = arguments.readings
        for reading in readings(threads, sizes):
            print(json.dumps(asdict(reading)), flush=True)
        return
    sizes = SIZES[:1] if arguments.quick else SIZES
    taken = [reading for threads in THREADS for reading in measured(threads, sizes)]
    lines = [
        *table(taken),
        "",
        "Median of 3 to 31 calls. MB: most that Python and numpy held at a time during a call. "
        "Aims, on one thread: samplers that read scores or less ≤ 10 ms at 3,600 and ≤ 60 ms at "
        "108,000, those that compare candidates with each other ≤ 150 ms at 3,600.",
        "",
        *growth_lines(taken),
    ]
    if arguments.quick:
        print("\n".join(lines))
    else:
        append_result(
            f"`select()` at D = {DIMENSION}, budget {BUDGET} (benchmarks/select.py)", lines
        )


if __name__ == "__main__":
    main()
