"""The conformance kit: run it on your own sampler in one line, `check_sampler(MySampler)`.

It needs nothing but numpy, so it works under any test runner. Its videos are small and awkward on
purpose: candidates that are not `0, 1, 2, ...`, uneven timestamps, read-only arrays, no candidates
or a few, scores that are constant, tied, NaN or infinite, embeddings that are equal, zero, NaN or
infinite, shots that overlap or lie outside, features that are missing. One is long: an array of
C x C entries is found out there. A sampler whose options use a scorer meets several: one that
answers well, some that leave answers out, say the same of all or write nonsense, one that is away,
and none.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import product
from typing import get_args

from samplers.code_scan import forbidden_reads
from samplers.contract import (
    ContractViolationError,
    FeaturesMissingError,
    FrameScorer,
    NotingSampler,
    Sampler,
    SamplerOptions,
    Scene,
    ScorerUnavailableError,
    check_selection,
)
from samplers.testing_processes import check_processes
from samplers.testing_rules import check_class
from samplers.testing_scorers import (
    ConstantScorer,
    CountingScorer,
    FailingScorer,
    InMemoryScorer,
    MalformedScorer,
    RareScorer,
    awkward_scorers,
)
from samplers.testing_videos import EmbeddingKind, InMemoryVideo, ScoreKind, make_video

QUERIES = (None, "Où est le chat ? 猫はどこ")
LONG_VIDEO_ROWS = 6_000
MOST_ALLOCATED_BYTES = LONG_VIDEO_ROWS**2 // 3
"""A third of the smallest array of C x C entries."""
HOUR_LONG_ROWS = 3_600
"""An hour's candidates, one a second."""
USUAL_DEADLINE_S = 1.0
"""What a selection may take where `FRAMEGATE_SELECTION_DEADLINE_S` is not set."""
SCORER_CASES = frozenset({"plain", "longer", "tied-score", "featureless", "3-candidate"})
"""Names of the cases in which a sampler meets every scorer."""


class SlowSamplerWarning(UserWarning):
    """One selection from an hour of video took more processor time than the usual deadline."""


def check_sampler(
    sampler: Callable[..., Sampler],
    options: SamplerOptions | None = None,
    *,
    encoder: str = "default",
    scorer: FrameScorer | None = None,
) -> None:
    """Raise `ContractViolationError` naming the broken rule and the case, or return None.

    `sampler` is a sampler class (built with `options`, or with its defaults) or a function without
    arguments that builds a sampler. Where its options use a scorer, the class gets `scorer`, by
    default an `InMemoryScorer`, and the awkward ones beside it; else it gets none.

    Time decides nothing here, but a sampler that would overrun the service's usual deadline gets a
    `SlowSamplerWarning`. `check_processes` checks what only other processes can show.
    """
    if isinstance(sampler, type):
        check_class(sampler)
    build = _builder(sampler, options, encoder)
    built = build(scorer)
    _check_declaration(built)
    for case in awkward_cases():
        _check_case(lambda: build(scorer), case)
    _check_threads(built)
    _check_memory(built)
    if hasattr(sampler, "Options"):
        _check_scorers(sampler, built.options, encoder)
    reads = forbidden_reads(type(built))
    if reads:
        raise ContractViolationError(f"a sampler does not read {'; '.join(reads)}")
    _warn_of_time(built)


def selection_digest(
    sampler: Callable[..., Sampler],
    options: SamplerOptions | None = None,
    *,
    encoder: str = "default",
    scorer: FrameScorer | None = None,
) -> str:
    """Hex sha256 over what the sampler selects in every case of the kit.

    The same in every process: one that differs under another `PYTHONHASHSEED` comes from a sampler
    whose selections hang on the order of a set or on `hash()`.
    """
    built = _builder(sampler, options, encoder)(scorer)
    selections = [_selection(built, case) for case in awkward_cases()]
    return sha256(repr(selections).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Case:
    """One call of `select`."""

    name: str
    video: InMemoryVideo
    query: str | None
    budget: int
    scenes: list[Scene] | None

    def handle(self, sampler: Sampler) -> InMemoryVideo:
        """The video as the service hands it to `sampler`."""
        return self.video if sampler.uses_query else self.video.without_query()

    def __str__(self) -> str:
        shots = "scenes=None" if self.scenes is None else f"{len(self.scenes)} scenes"
        size = f"C={len(self.video.candidates)}"
        return f"{self.name} video, {size}, query={self.query!r}, budget={self.budget}, {shots}"


def awkward_cases() -> Iterator[Case]:
    """Every call that the kit makes, but for the long video's."""
    plain = make_video(40, seed=3)
    shots = (None, plain.scenes(7), plain.scenes(10_000))
    yield from _cases("plain", plain, QUERIES, shots)
    yield from _cases("longer", make_video(301, seed=5), QUERIES, shots[:1])
    yield from _cases("featureless", make_video(40, seed=3, has_features=False), QUERIES, shots)
    for broken, scenes in plain.broken_scenes().items():
        yield from _cases(broken, plain, QUERIES, [scenes])
    for score_kind in get_args(ScoreKind):
        video = make_video(40, seed=3, score_kind=score_kind)
        yield from _cases(f"{score_kind}-score", video, QUERIES[1:], shots[:2])
    for embedding_kind in get_args(EmbeddingKind):
        video = make_video(40, seed=3, embedding_kind=embedding_kind)
        yield from _cases(f"{embedding_kind}-embedding", video, QUERIES, shots[:2])
    for count in range(4):
        video = make_video(count)
        few: tuple[list[Scene] | None, ...] = (None, video.scenes(2), video.scenes(10_000))
        yield from _cases(f"{count}-candidate", video, QUERIES, few)


def _cases(
    name: str,
    video: InMemoryVideo,
    queries: Iterable[str | None],
    shots: Iterable[list[Scene] | None],
) -> Iterator[Case]:
    count = len(video.candidates)
    budgets = sorted({0, 1, 2, 3, 13, max(0, count - 1), count, count + 1, 10 * count})
    for budget, query, scenes in product(budgets, queries, shots):
        yield Case(name, video, query, budget, scenes)


def _builder(
    sampler: Callable[..., Sampler], options: SamplerOptions | None, encoder: str
) -> Callable[[FrameScorer | None], Sampler]:
    """Builds the sampler with a scorer if, and only if, its options use one."""
    options_class = getattr(sampler, "Options", None)

    def build(scorer: FrameScorer | None) -> Sampler:
        if options_class is None:
            return sampler()
        chosen = options or options_class()
        given = scorer or InMemoryScorer(encoder) if chosen.uses_scorer else None
        return sampler(chosen, encoder=encoder, scorer=given)

    return build


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
    if isinstance(again, NotingSampler) and first is not None:
        _check_note(again, case, first)


def _check_note(sampler: NotingSampler, case: Case, indices: list[int]) -> None:
    video = case.handle(sampler)
    noted = sampler.select_with_note(video, case.query, case.budget, case.scenes)
    if noted.indices != indices:
        raise ContractViolationError(
            f"select gave {indices}, select_with_note {noted.indices} ({case})"
        )
    if not isinstance(noted.note, str | None):
        raise ContractViolationError(f"a note is a text, not {noted.note!r} ({case})")


def _check_threads(sampler: Sampler) -> None:
    cases = [case for case in awkward_cases() if case.name == "longer"]
    alone = [_selection(sampler, case) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda case: _selection(sampler, case), cases))
    if alone != together:
        raise ContractViolationError("threads that share one sampler got different selections")


def _check_memory(sampler: Sampler) -> None:
    video = make_video(LONG_VIDEO_ROWS, dimension=8, seed=7)
    for query, scenes in product(QUERIES, (None, video.scenes(100))):
        case = Case("long", video, query, 64, scenes)
        peak_bytes = _allocated_bytes(sampler, case)
        if peak_bytes > MOST_ALLOCATED_BYTES:
            raise ContractViolationError(
                f"select allocated {peak_bytes / 1e6:.0f} MB, as an array of C x C entries does; "
                f"{MOST_ALLOCATED_BYTES / 1e6:.0f} MB are allowed ({case})"
            )


def _check_scorers(sampler: Callable[..., Sampler], options: SamplerOptions, encoder: str) -> None:
    cases = [case for case in awkward_cases() if case.name in SCORER_CASES]
    answering: dict[str, FrameScorer] = {"in-memory": InMemoryScorer(encoder)}
    # A sampler that may ask nothing need not meet every answer.
    answering |= awkward_scorers(encoder) if options.uses_scorer else {}
    for name, scorer in answering.items():
        counting = CountingScorer(scorer)
        built = sampler(options, encoder=encoder, scorer=counting)
        for case in cases:
            named = replace(case, name=f"{name} scorer, {case.name}")
            _check_questions(built, named, counting)
    for absent in (None, FailingScorer()) if options.uses_scorer else ():
        built = sampler(options, encoder=encoder, scorer=absent)
        for case in cases:
            _selection(built, replace(case, name=f"no scorer, {case.name}"), has_scorer=False)


def _check_questions(sampler: Sampler, case: Case, scorer: CountingScorer) -> None:
    """The same selection twice, and no question that the sampler may not ask."""
    first, second = _selection(sampler, case), _selection(sampler, case)
    if first != second:
        raise ContractViolationError(f"the same answers gave {first} and then {second} ({case})")
    if scorer.sizes and not sampler.options.uses_scorer:
        raise ContractViolationError(f"options.uses_scorer is False, a model was asked ({case})")
    if scorer.sizes and case.query is None:
        raise ContractViolationError(f"a model was asked without a query ({case})")
    scorer.sizes.clear()


@lru_cache(maxsize=1)
def _hour_long_video() -> InMemoryVideo:
    return make_video(HOUR_LONG_ROWS, dimension=1_152, seed=9)


def _warn_of_time(sampler: Sampler) -> None:
    case = Case("hour-long", _hour_long_video(), QUERIES[1], 64, None)
    took_s = _processor_s(sampler, case)
    if took_s > USUAL_DEADLINE_S:
        # A second time: the first one pays for what is imported, or made, once.
        took_s = min(took_s, _processor_s(sampler, case))
    if took_s > USUAL_DEADLINE_S:
        warnings.warn(
            f"select took {took_s:.1f} s of processor time; where it takes more than "
            f"{USUAL_DEADLINE_S:g} s, `uniform` answers, unless the operator allows more ({case})",
            SlowSamplerWarning,
            stacklevel=3,
        )


def _processor_s(sampler: Sampler, case: Case) -> float:
    """Of this thread alone, which stands still while others use the processor."""
    started_s = time.thread_time()
    _selection(sampler, case)
    return time.thread_time() - started_s


def _allocated_bytes(sampler: Sampler, case: Case) -> int:
    """Most bytes that one call held at a time, as far as Python and numpy asked for them."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        _selection(sampler, case)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        if not was_tracing:
            tracemalloc.stop()
    return peak - before


def _selection(sampler: Sampler, case: Case, *, has_scorer: bool = True) -> list[int] | None:
    """The checked indices, or None where missing features, or scorers, were reported as such."""
    scenes = None if case.scenes is None else list(case.scenes)
    before = _fingerprint(case.video)
    try:
        indices = sampler.select(case.handle(sampler), case.query, case.budget, scenes)
        check_selection(indices, case.video, case.budget, fills_budget=sampler.fills_budget)
    except FeaturesMissingError as exc:
        is_excused = isinstance(exc, ScorerUnavailableError) and not has_scorer
        if case.video.embeddings is not None and not is_excused:
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


__all__ = [
    "Case",
    "ConstantScorer",
    "CountingScorer",
    "EmbeddingKind",
    "FailingScorer",
    "InMemoryScorer",
    "InMemoryVideo",
    "MalformedScorer",
    "RareScorer",
    "ScoreKind",
    "SlowSamplerWarning",
    "awkward_cases",
    "awkward_scorers",
    "check_processes",
    "check_sampler",
    "make_video",
    "selection_digest",
]
