"""What a shadow at rate 1 does to the answers beside it: whole-answer p99, on against off.

    python -m benchmarks.shadow                      # 2,000 answers a side, some six minutes
    python -m benchmarks.shadow --answers 100 --shadows bolt --print-only

The real gateway and encoder process, a language model that takes 300 ms, requests at a fixed rate
that keeps the machine's cores at most half busy (calibrated with the shadow on). Blocks with and
without shadow take turns by changing the flag file. The blocks without are of two kinds, `off` and
`off again`, which differ in nothing: their ratio is the noise that any other must stand out from.
Latency counts from the moment at which a request was due, so that a stall counts for all that it
holds up. Every answer is compared with the first one to its question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import numpy as np
import psutil

from app.demo import demo_clip
from benchmarks.instant_llm import instant_llm
from benchmarks.report import append_result
from benchmarks.service import Service, running_service
from benchmarks.traffic import connections

LLM_DELAY_S = 0.3
MAX_CPU_SHARE = 0.5
AIMED_CPU_SHARE = 0.4
CALIBRATION_S = 8.0
CALIBRATION_RATE = 10.0
BLOCK_S = 5.0
SETTLE_S = 1.0
NUM_QUESTIONS = 20
NUM_RESAMPLES = 2000
CONTROL = "aks"
OFF, OFF_AGAIN = "off", "off again"
ROGUES = {
    "sleeping": "tests.app.rogue_samplers:Sleeping",
    "raising": "tests.app.rogue_samplers:Raising",
    "floats": "tests.app.rogue_samplers:Floats",
    "spinning": "tests.shadow.rogues:Spinning",
}
DEFAULT_SHADOWS = ("bolt", "sleeping", "spinning", "raising", "floats")
COUNTED = re.compile(r"^framegate_shadow_(comparisons|shed)_total\{(.*)\} (\S+)$", re.MULTILINE)


@dataclass(slots=True)
class Run:
    """All blocks so far: seconds of every answer by side and block."""

    service: Service
    video_id: str
    rate: float = CALIBRATION_RATE
    blocks: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    first_answers: dict[str, object] = field(default_factory=dict)
    num_different: int = 0
    cpu_shares: list[float] = field(default_factory=list)

    async def block(self, side: str, seconds: float) -> list[float]:
        """Ask at the fixed rate under this side's flags; the answers' seconds."""
        put_flags(self.service, shadow=None if side in {OFF, OFF_AGAIN} else side)
        await asyncio.sleep(SETTLE_S)
        cpu_s, started = total_cpu_s(self.service), perf_counter()
        due = [started + number / self.rate for number in range(round(seconds * self.rate))]
        taken = await asyncio.gather(*(self._ask(at, n) for n, at in enumerate(due)))
        wall_s = perf_counter() - started
        self.cpu_shares.append((total_cpu_s(self.service) - cpu_s) / wall_s / num_cores())
        return list(taken)

    async def _ask(self, due: float, number: int) -> float:
        await asyncio.sleep(max(0.0, due - perf_counter()))
        question = f"Is there a thing number {number % NUM_QUESTIONS}?"
        # One of its own: a kept one would be closed when the rate lets it rest for too long.
        async with connections(self.service.url, 1) as (connection,):
            reply = await connection.post(
                "/v1/answers", {"video_id": self.video_id, "question": question}
            )
        taken_s = perf_counter() - due
        if reply.status != 200:
            raise RuntimeError(f"an answer failed: {reply.document}")
        content = (reply.document["answer"], reply.document["evidence"]["frames"])
        self.num_different += content != self.first_answers.setdefault(question, content)
        return taken_s


def num_cores() -> int:
    return len(os.sched_getaffinity(0))


def total_cpu_s(service: Service) -> float:
    """Of the service and of this process, which holds clients and language model."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(100):
        try:
            return service.cpu_seconds() + own.ru_utime + own.ru_stime
        except psutil.NoSuchProcess:
            continue  # a shadow process was killed between being listed and being asked
    raise RuntimeError("the service's processes do not hold still")


def put_flags(service: Service, shadow: str | None) -> None:
    def flag(value: str | float) -> dict[str, object]:
        return {"state": "ENABLED", "variants": {"only": value}, "defaultVariant": "only"}

    flags = {
        "video.sampler": flag(CONTROL),
        "video.sampler.shadow": flag(shadow or "off"),
        "video.sampler.shadow_rate": flag(1.0 if shadow else 0.0),
    }
    path = service.data_dir / "flags.json"
    made = path.with_suffix(".new")
    made.write_text(json.dumps({"flags": flags}))
    made.replace(path)


async def calibrate(run: Run, shadow: str) -> None:
    """Set the rate at which the cores are as busy as aimed for, shadow included."""
    await run.block(shadow, CALIBRATION_S / 4)
    await run.block(shadow, CALIBRATION_S)
    run.rate *= AIMED_CPU_SHARE / run.cpu_shares[-1]
    run.cpu_shares.clear()


async def measured(service: Service, video_id: str, answers: int, shadows: Sequence[str]) -> Run:
    run = Run(service, video_id)
    await calibrate(run, shadows[0])
    sides = [OFF, *shadows, OFF_AGAIN]
    while min(sum(map(len, run.blocks[side])) for side in sides) < answers:
        for side in sides:
            run.blocks[side].append(await run.block(side, BLOCK_S))
        sides = [*sides[1:], sides[0]]
    return run


def p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[-1]


def pooled(blocks: list[list[float]]) -> list[float]:
    return [value for block in blocks for value in block]


def ratio_interval(
    above: list[list[float]], below: list[list[float]]
) -> tuple[float, float, float]:
    """p99 of one side by the other's, and its 95 % interval: whole blocks are drawn again."""
    rng = np.random.default_rng(0)

    def drawn(blocks: list[list[float]]) -> float:
        chosen = rng.integers(len(blocks), size=len(blocks))
        return float(np.percentile(np.concatenate([blocks[one] for one in chosen]), 99))

    ratios = [drawn(above) / drawn(below) for _ in range(NUM_RESAMPLES)]
    low, high = np.percentile(ratios, [2.5, 97.5])
    return p99(pooled(above)) / p99(pooled(below)), float(low), float(high)


def summary(run: Run, shadows: Sequence[str]) -> list[str]:
    off = [*run.blocks[OFF], *run.blocks[OFF_AGAIN]]
    noise, low, high = ratio_interval(run.blocks[OFF_AGAIN], run.blocks[OFF])
    num_answers = min(sum(map(len, blocks)) for blocks in run.blocks.values())
    lines = [
        f"A language model that takes {1000 * LLM_DELAY_S:.0f} ms; {run.rate:.0f} answers/s, "
        f"{100 * median(run.cpu_shares):.0f} % CPU (median of blocks; at most "
        f"{100 * MAX_CPU_SHARE:.0f} % is meant); at least {num_answers:,} answers a side in "
        f"interleaved blocks of {BLOCK_S:g} s. Control `{CONTROL}`; every answer is compared.",
        "",
        "| shadow | p50 ms | p99 ms | p99 ÷ off | 95 % interval | verdict |",
        "|---|---|---|---|---|---|",
        f"| off (both kinds) | {times(off)} | 1 | | |",
        f"| A/A: off again ÷ off | {times(run.blocks[OFF_AGAIN])} | {noise:.3f} | "
        f"{low:.3f} to {high:.3f} | |",
    ]
    for shadow in shadows:
        ratio, lowest, highest = ratio_interval(run.blocks[shadow], off)
        verdict = "within 2 %" if ratio <= 1.02 else "inside A/A" if ratio <= high else "slower"
        lines.append(
            f"| `{shadow}` | {times(run.blocks[shadow])} | **{ratio:.3f}** | "
            f"{lowest:.3f} to {highest:.3f} | {verdict} |"
        )
    return [*lines, "", f"Answers that differed from those without shadow: {run.num_different}."]


def times(blocks: list[list[float]]) -> str:
    values = pooled(blocks)
    return f"{1000 * median(values):.1f} | {1000 * p99(values):.1f}"


def shadow_counts(service: Service) -> str:
    """What came of the comparisons, from /metrics."""
    counts: dict[str, float] = defaultdict(float)
    for name, labels, value in COUNTED.findall(service.client.get_text("/metrics")):
        reason = re.search(r'(?:outcome|reason)="(\w+)"', labels)
        if float(value) and reason is not None:
            counts[f"{name}: {reason[1]}"] += float(value)
    return ", ".join(f"{name} {value:,.0f}" for name, value in sorted(counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=2000, help="a side, at least")
    parser.add_argument("--shadows", default=",".join(DEFAULT_SHADOWS), help="sampler ids")
    parser.add_argument("--print-only", action="store_true", help="leave docs/ alone")
    arguments = parser.parse_args()
    shadows = tuple(arguments.shadows.split(","))
    with (
        tempfile.TemporaryDirectory(prefix="framegate-benchmark-") as temporary,
        instant_llm(LLM_DELAY_S) as llm,
    ):
        settings = {
            "FRAMEGATE_LLM_URL": llm.url,
            "FRAMEGATE_LOG_LEVEL": "warning",
            "FRAMEGATE_EXTRA_SAMPLERS": ",".join(ROGUES.values()),
            "FRAMEGATE_SHADOW_AA_SHARE": "0",
            "FRAMEGATE_SHADOW_TENANT_PER_MINUTE": "1000000",
        }
        with running_service(Path(temporary) / "data", settings) as service:
            video = service.client.upload(demo_clip(), lambda _: None)
            service.client.wait_until_indexed(video["video_id"], lambda _: None)
            run = asyncio.run(measured(service, str(video["video_id"]), arguments.answers, shadows))
            lines = [*summary(run, shadows), f"Comparisons: {shadow_counts(service)}."]
    if arguments.print_only:
        print("\n".join(lines))
    else:
        append_result("Answers beside a shadow (benchmarks/shadow.py)", lines)


if __name__ == "__main__":
    main()
