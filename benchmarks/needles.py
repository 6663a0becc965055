"""Which sampler finds what: short moments in long footage, asked for in words.

    python -m benchmarks.needles            all of it, into docs/samplers.md (under half an hour)
    python -m benchmarks.needles --quick    a minute, printed only

Photographs that installed packages carry are shown for 2 to 8 seconds, one of them once, twice or
four times, or two or four of them once each, in 1 to 60 minutes of footage made of real clips;
other photographs distract. Every sampler that needs
no model selects 4 to 64 frames by the question, through a real encoder. Nothing is downloaded.
Embeddings are kept under `--cache`, so that a second run takes half the time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from benchmarks.needle_encoders import DEMO, NeedleEncoder, SeenTakes, load_encoder
from benchmarks.needle_metrics import Outcomes, measured, visibility
from benchmarks.needle_pictures import NEEDLES, Take
from benchmarks.needle_real_path import real_path_lines
from benchmarks.needle_report import publish, report_lines
from benchmarks.needle_samplers import ORACLE, RANDOM, Select, contenders, selects
from benchmarks.needle_videos import Scenario, compose, pieces
from samplers.registry import load_registry

T = TypeVar("T")

CACHE = Path(tempfile.gettempdir()) / "framegate-needles"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is tried with what."""

    needle_ids: tuple[str, ...]
    minutes: tuple[int, ...]
    moments: tuple[tuple[int, int], ...]
    """Number of moments, number of things."""
    seeds: int
    budgets: tuple[int, ...]

    def scenarios(self) -> list[Scenario]:
        """The long videos first: whoever is still busy at the end is busy with a short one."""
        return [
            Scenario(needle_id, minutes, num_moments, seed, num_things)
            for minutes, (num_moments, num_things), needle_id, seed in product(
                sorted(self.minutes, reverse=True), self.moments, self.needle_ids, range(self.seeds)
            )
        ]


FULL = Plan(
    needle_ids=tuple(needle.id for needle in NEEDLES),
    minutes=(1, 5, 20, 60),
    moments=((1, 1), (2, 1), (4, 1), (2, 2), (4, 4)),
    seeds=3,
    budgets=(4, 8, 16, 32, 64),
)
QUICK = Plan(("cat", "coffee"), (1,), ((2, 1),), seeds=1, budgets=(4, 16))


@dataclass(frozen=True, slots=True)
class Look:
    """What a worker needs to embed or to select; small and picklable."""

    encoder: str
    cache: Path

    def load(self) -> NeedleEncoder:
        return _loaded(self.encoder, self.cache)


@dataclass(frozen=True, slots=True)
class Trial:
    """One scenario and its question, as a worker gets it."""

    scenario: Scenario
    budgets: tuple[int, ...]
    seen: SeenTakes
    question_vector: tuple[float, ...]


@cache
def _loaded(encoder: str, folder: Path) -> NeedleEncoder:
    # As many processes as cores, so one thread each.
    torch.set_num_threads(1)
    return load_encoder(encoder, folder)


@cache
def _built() -> dict[str, Select]:
    registry = load_registry()
    taking_part, _ = contenders(registry)
    return selects(registry, taking_part)


def see(look: Look, seen: SeenTakes, take: Take) -> None:
    """In a worker: embed one take."""
    seen.see(take, look.load())


def tried(trial: Trial) -> tuple[list[list[tuple[float, ...]]], float]:
    """In a worker: `[labels][budgets]` metrics of one scenario, and how visible its needle is."""
    vector = np.array(trial.question_vector, dtype=np.float32)
    video = compose(trial.scenario, trial.seen, vector)
    question = trial.scenario.question
    values = [
        [measured(select(video, question, budget), video) for budget in trial.budgets]
        for select in _built().values()
    ]
    return values, visibility(video, question)


def missing_takes(scenarios: Iterable[Scenario], seen: SeenTakes) -> list[Take]:
    wanted = {piece.take: None for scenario in scenarios for piece in pieces(scenario)}
    return [take for take in wanted if not seen.has(take)]


def run(plan: Plan, look: Look, pool: ProcessPoolExecutor) -> Outcomes:
    encoder = look.load()
    seen = SeenTakes(look.cache, encoder.encoder_id)
    scenarios = plan.scenarios()
    takes = missing_takes(scenarios, seen)
    tracked("takes embedded", pool.map(partial(see, look, seen), takes))
    questions = dict.fromkeys(scenario.question for scenario in scenarios)
    vectors = {question: tuple(encoder.question(question).tolist()) for question in questions}
    trials = [
        Trial(scenario, plan.budgets, seen, vectors[scenario.question]) for scenario in scenarios
    ]
    done = tracked("videos tried", pool.map(tried, trials))
    taking_part, _ = contenders(load_registry())
    return Outcomes(
        labels=(ORACLE, RANDOM, *(contender.label for contender in taking_part)),
        scenarios=tuple(scenarios),
        budgets=plan.budgets,
        values=np.array([values for values, _ in done]).transpose(1, 0, 2, 3),
        visibility=np.array([value for _, value in done]),
    )


def tracked(what: str, results: Iterable[T]) -> list[T]:
    """All results, with a word now and then about how many there are."""
    collected = []
    for result in results:
        collected.append(result)
        if len(collected) % 50 == 0:
            print(f"{what}: {len(collected)}", file=sys.stderr, flush=True)
    return collected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two videos of a minute, printed only")
    parser.add_argument("--seeds", type=int, default=FULL.seeds, help="videos of every kind")
    parser.add_argument("--encoder", default=DEMO, help="demo, or open_clip:MODEL:PRETRAINED")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for embeddings")
    parser.add_argument("--print-only", action="store_true", help="leave the docs alone")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else replace(FULL, seeds=arguments.seeds)
    look = Look(arguments.encoder, arguments.cache)
    # For the workers, one a core; numpy reads it when they import it.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        outcomes = run(plan, look, pool)
    _, left_out = contenders(load_registry())
    lines = report_lines(outcomes, left_out)
    if arguments.encoder == DEMO:
        lines += real_path_lines(Scenario("coffee", 1, 2, 0), look.cache)
    if arguments.quick or arguments.print_only:
        print("\n".join(lines))
    else:
        publish(lines, outcomes)


if __name__ == "__main__":
    main()
