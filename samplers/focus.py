"""`focus`: best-arm identification over short clips (arXiv 2510.27280, ICLR 2026).

Cuts the video into clips, asks for the relevance of a few rows of each, looks closer where a clip
may be good, and draws the frames from the best clips: a sampler for relevance that costs a model
call a frame. Written from the formulas and the golden vectors; the authors' code is Apache-2.0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from samplers.contract import (
    FrameScorer,
    IndexArray,
    InvalidOptionsError,
    NotedSelection,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.focus_upstream import UpstreamSettings, driver_min_gap_s, upstream_rows
from samplers.model_scores import available
from samplers.options import check_ranges
from samplers.score_oracle import Answers, CachedOracle, ModelOracle, ScoreOracle
from samplers.selection import (
    Rows,
    apportion,
    finalise,
    is_degenerate,
    min_max_scaled,
    num_wanted,
    seeded_rng,
    top_rows,
    uniform_rows,
    usable_scores,
)

FEWEST_ARMS = 8
FEWEST_PROMISING = 4
MOST_FINAL_ARMS = 32
SAMPLES_PER_ARM = 3
COARSE_SHARE = 0.6
"""Of the calls that `max_calls` allows, what the first, even look may use."""
TOP_SHARE = 0.2
"""Of the budget, what goes to the best scored rows wherever they lie."""
TEMPERATURE = 0.06
SMALLEST_VARIANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Arms:
    """Clips of equal duration, as rows; a clip without a row is none."""

    starts: IndexArray
    """int64 `[A + 1]`: arm `i` holds the rows `starts[i] <= row < starts[i + 1]`."""
    length_s: float

    @property
    def sizes(self) -> IndexArray:
        return np.diff(self.starts)

    @property
    def arm_of_rows(self) -> IndexArray:
        """int64 `[C]`."""
        return np.repeat(np.arange(len(self.starts) - 1), self.sizes)


def equal_arms(times_s: TimeArray, clip_s: float, limit: int) -> Arms:
    """Clips of `clip_s` seconds, at least 8 and at most `limit`; the tail belongs to the last one.

    `times_s` is float64 `[C]`, seconds, increasing, C >= 1.
    """
    span_s = float(times_s[-1] - times_s[0])
    count = max(1, min(limit, len(times_s), max(FEWEST_ARMS, math.ceil(span_s / clip_s))))
    edges_s = times_s[0] + span_s * np.arange(1, count) / count
    starts = np.concatenate([[0], np.searchsorted(times_s, edges_s), [len(times_s)]])
    return Arms(np.unique(starts), span_s / count)


def coarse_rows(arms: Arms, rng: np.random.Generator) -> IndexArray:
    """int64: of every arm the middle row and up to two others, at random."""
    first, sizes = arms.starts[:-1], arms.sizes
    middle = (sizes - 1) // 2
    draws = rng.random((2, len(sizes)))
    one = np.floor(draws[0] * (sizes - 1)).astype(np.int64)
    two = np.floor(draws[1] * (sizes - 2)).astype(np.int64)
    # Positions among the others: the second passes over the first, both pass over the middle.
    two += two >= one
    one += one >= middle
    two += two >= middle
    rows = [first + middle, (first + one)[sizes > 1], (first + two)[sizes > 2]]
    return np.concatenate(rows)


@dataclass(frozen=True, slots=True)
class ArmStatistics:
    """What the answers say about every arm, float64 `[A]` each."""

    count: TimeArray
    mean: TimeArray
    """-inf without an answer."""
    variance: TimeArray

    @property
    def upper_bounds(self) -> TimeArray:
        """How good an arm may be; an arm whose rows the model did not answer is not asked again."""
        log_total = math.log(max(self.count.sum(), 1.0))
        count = np.maximum(self.count, 1.0)
        spread = np.maximum(self.variance, SMALLEST_VARIANCE)
        bounds: TimeArray = (
            self.mean + np.sqrt(2 * log_total * spread / count) + 3 * log_total / count
        )
        return bounds


def arm_statistics(arms: Arms, relevance: TimeArray) -> ArmStatistics:
    """Every answer counts for its own arm, whichever look it came from."""
    known = np.flatnonzero(~np.isnan(relevance))
    num_arms = len(arms.sizes)
    arm, values = arms.arm_of_rows[known], relevance[known]
    count = np.bincount(arm, minlength=num_arms).astype(np.float64)
    sums = np.bincount(arm, values, minlength=num_arms)
    squares = np.bincount(arm, values * values, minlength=num_arms)
    divisor = np.maximum(count, 1.0)
    mean = np.where(count > 0, sums / divisor, -np.inf)
    variance = np.maximum(squares / divisor - (sums / divisor) ** 2, 0.0)
    return ArmStatistics(count, mean, variance)


def fine_rows(
    arms: Arms, chosen: IndexArray, answers: Answers, fine_fps: float, rng: np.random.Generator
) -> IndexArray:
    """int64: new rows of the `chosen` arms, about `fine_fps` a second, evenly spread but jittered.

    Every arm's new rows are cut into as many stretches as it may ask about, and each stretch gives
    one. What `answers` still allows is shared evenly.
    """
    arm_of_rows = arms.arm_of_rows
    is_chosen = np.zeros(len(arms.sizes), dtype=np.bool_)
    is_chosen[chosen] = True
    fresh = np.flatnonzero(is_chosen[arm_of_rows] & ~answers.is_asked)
    sizes = np.bincount(arm_of_rows[fresh], minlength=len(arms.sizes))
    needs = np.minimum(sizes, max(1, math.ceil(fine_fps * arms.length_s)))
    if needs.sum() > answers.num_left:
        needs = apportion(np.ones(len(needs)), answers.num_left, needs)
    arm = np.repeat(np.arange(len(needs)), needs)
    stretch = np.arange(len(arm)) - (np.cumsum(needs) - needs)[arm]
    low = stretch * sizes[arm] // needs[arm]
    high = (stretch + 1) * sizes[arm] // needs[arm]
    places = low + np.floor(rng.random(len(arm)) * (high - low)).astype(np.int64)
    rows: IndexArray = fresh[(np.cumsum(sizes) - sizes)[arm] + places]
    return rows


class Draw:
    """The final frames: the best scored rows, and draws by relevance inside the best arms."""

    def __init__(self, arms: Arms, answers: Answers, times_s: TimeArray, budget: int) -> None:
        self._arms = arms
        self._relevance = answers.relevance
        self._times_s = times_s
        self._budget = budget
        self._gap_s = driver_min_gap_s(float(times_s[-1] - times_s[0]), budget)
        num_top = round(TOP_SHARE * min(budget, len(answers.known_rows)))
        self._is_picked = np.zeros(len(times_s), dtype=np.bool_)
        self._is_picked[top_rows(answers.relevance, num_top)] = True

    def rows(self, order: IndexArray, rng: np.random.Generator) -> IndexArray:
        """int64, ascending: `budget` rows; `order` ranks the arms, best first."""
        starts = self._arms.starts
        left = self._budget - int(np.count_nonzero(self._is_picked))
        free = self._arms.sizes - np.add.reduceat(self._is_picked.astype(np.int64), starts[:-1])
        fewest = max(FEWEST_PROMISING, min(math.ceil(0.25 * len(order)), MOST_FINAL_ARMS))
        # As many more arms as it takes to hold what is wanted.
        enough = int(np.searchsorted(np.cumsum(free[order]), left)) + 1
        chosen = order[: max(fewest, enough)]
        quotas = apportion(np.ones(len(chosen)), left, free[chosen])
        is_full = np.zeros(len(free), dtype=np.bool_)
        is_full[chosen] = quotas == free[chosen]
        self._is_picked |= np.repeat(is_full, self._arms.sizes)
        for arm, quota in zip(chosen.tolist(), quotas.tolist(), strict=True):
            if quota < free[arm]:
                self._pick(int(starts[arm]), int(starts[arm + 1]), quota, rng)
        return np.flatnonzero(self._is_picked)

    def _pick(self, start: int, end: int, quota: int, rng: np.random.Generator) -> None:
        """Draw `quota` rows of an arm without replacement, a little apart where there is room."""
        if quota == 0:
            return
        free = start + np.flatnonzero(~self._is_picked[start:end])
        # The largest of logarithm + Gumbel noise are draws without replacement, in their order.
        keys = self._softmax_logits(start, end)[free - start] + rng.gumbel(size=len(free))
        drawn = free[np.argsort(-keys, kind="stable")]
        times_s = self._times_s[drawn]
        low = np.searchsorted(self._times_s, times_s - self._gap_s, side="right").tolist()
        high = np.searchsorted(self._times_s, times_s + self._gap_s).tolist()
        too_near: list[int] = []
        for row, first, last in zip(drawn.tolist(), low, high, strict=True):
            if quota == 0:
                return
            if self._is_picked[first:last].any():
                too_near.append(row)
            else:
                self._is_picked[row] = True
                quota -= 1
        self._is_picked[too_near[:quota]] = True

    def _softmax_logits(self, start: int, end: int) -> TimeArray:
        """float64 `[end - start]`: answers, and between them straight lines, over `TEMPERATURE`."""
        relevance = self._relevance[start:end]
        known = np.flatnonzero(~np.isnan(relevance))
        times_s = self._times_s[start:end]
        if len(known) == 0:
            return np.zeros(end - start)
        lines = np.interp(times_s, times_s[known], relevance[known])
        return (np.zeros(end - start) if is_degenerate(lines) else min_max_scaled(lines)) / (
            TEMPERATURE
        )


@dataclass(frozen=True, slots=True)
class FocusSampler:
    """Best-arm identification over short clips: looks closer where a clip may be good."""

    id: ClassVar[str] = "focus"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """Whom to ask, how long a clip is, how much of the video gets a closer look."""

        oracle: Literal["cached", "model"] = field(
            default="cached",
            metadata={
                "doc": "who knows the relevance of a frame: the cosines of the index, or a "
                "vision-language model, one call a frame"
            },
        )
        max_calls: int = field(
            default=128,
            metadata={"doc": "most frames a model is asked about for one question, 8 to 10000"},
        )
        clip_s: float = field(
            default=16.0, metadata={"doc": "length of a clip, seconds, 0.1 to 3600"}
        )
        zoom_ratio: float = field(
            default=0.25,
            metadata={"doc": "share of the clips that get a closer look, at least 4; 0 to 1"},
        )
        fine_fps: float = field(
            default=1.0,
            metadata={"doc": "frames asked about per second in the closer look, 0.01 to 100"},
        )
        seed: int = field(
            default=42,
            metadata={"doc": "of the random draws; safe mode mixes in video, question and budget"},
        )
        compat: Literal["safe", "upstream"] = field(
            default="safe",
            metadata={
                "doc": "safe: the rule mended; upstream: the published program's rows, then "
                "repaired to the budget"
            },
        )

        def __post_init__(self) -> None:
            check_ranges(
                self,
                max_calls=(8, 10_000),
                clip_s=(0.1, 3600),
                zoom_ratio=(0, 1),
                fine_fps=(0.01, 100),
            )
            if self.seed < 0:
                raise InvalidOptionsError(f"option 'seed' must not be negative, not {self.seed}")

        @property
        def uses_scorer(self) -> bool:
            return self.oracle == "model"

    options: Options
    encoder: str = field(kw_only=True)
    scorer: FrameScorer | None = field(default=None, kw_only=True)

    def select(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> list[int]:
        """The indices of `select_with_note`."""
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """Exactly `min(budget, C)` frame indices, and how many candidates were scored for them.

        `uniform` rows without a query or usable scores. Raises `FeaturesMissingError`, and
        `ScorerUnavailableError` where the model has to be asked and gives no answer at all.
        """
        del scenes
        wanted, num_rows = num_wanted(video, budget), len(video.candidates)
        if wanted in (0, num_rows):
            return NotedSelection(finalise([], video, budget))
        uniform = finalise(uniform_rows(num_rows, wanted), video, budget)
        if query is None:
            return NotedSelection(uniform, "no question: evenly spread")
        oracle = self._oracle(video, query)
        if oracle is None:
            return NotedSelection(uniform, "the scores rank nothing: evenly spread")
        limit = self.options.max_calls if self.options.uses_scorer else num_rows
        answers = Answers(oracle, num_rows, limit)
        rows = self._rows(video, query, wanted, answers)
        if is_degenerate(answers.relevance[answers.known_rows]):
            return NotedSelection(uniform, f"{self._costs(answers)}; all alike: evenly spread")
        return NotedSelection(finalise(rows, video, budget), self._costs(answers))

    def _oracle(self, video: VideoHandle, query: str) -> ScoreOracle | None:
        if self.options.uses_scorer:
            return ModelOracle(available(self.scorer), video, query)
        scores = usable_scores(video, self.encoder, query)
        return None if scores is None else CachedOracle(min_max_scaled(scores))

    def _rows(self, video: VideoHandle, query: str, budget: int, answers: Answers) -> Rows:
        options = self.options
        times_s = video.timestamps_s[video.candidates]
        if options.compat == "upstream":
            span_s = float(times_s[-1] - times_s[0])
            fps = (len(times_s) - 1) / span_s
            gap_s = driver_min_gap_s(len(times_s) / fps, budget)
            settings = UpstreamSettings(fps=fps, min_gap_s=gap_s)
            return upstream_rows(answers, budget, np.random.default_rng(options.seed), settings)
        rng = seeded_rng(video, query, budget, options.seed)
        most_arms = int(COARSE_SHARE * answers.num_left) // SAMPLES_PER_ARM
        arms = equal_arms(
            times_s, options.clip_s, most_arms if options.uses_scorer else len(times_s)
        )
        answers.ask(coarse_rows(arms, rng))
        num_promising = max(FEWEST_PROMISING, math.ceil(options.zoom_ratio * len(arms.sizes)))
        bounds = arm_statistics(arms, answers.relevance).upper_bounds
        promising = np.argsort(-bounds, kind="stable")[:num_promising]
        answers.ask(fine_rows(arms, promising, answers, options.fine_fps, rng))
        order = np.argsort(-arm_statistics(arms, answers.relevance).mean, kind="stable")
        return Draw(arms, answers, times_s, budget).rows(order, rng)

    def _costs(self, answers: Answers) -> str:
        """Of cached cosines nothing is said to be saved: all of them were computed beforehand."""
        num_rows, num_asked = len(answers.is_asked), answers.num_asked
        counts = f"{num_asked:,} of {num_rows:,} candidates"
        if not self.options.uses_scorer:
            return f"looked at the cosines of {counts}"
        costs = f"the model was asked about {counts}, {num_rows - num_asked:,} were saved"
        unanswered = answers.num_unanswered
        return f"{costs}, {unanswered:,} went unanswered" if unanswered else costs
