"""`frame-voyager-lite`: a vision-language model judges small sets of frames, not single ones.

A training-free stand-in for Frame-Voyager (ICLR 2025, arXiv 2410.03226), which learns to rank sets
and whose code and weights are not public. Sets are drawn from the likely frames, a model says of
each whether it suffices to answer, and what a frame adds to its sets is estimated from that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from samplers.contract import (
    FloatArray,
    FrameScorer,
    IndexArray,
    InvalidOptionsError,
    NotedSelection,
    SamplerOptions,
    Scene,
    TimeArray,
    VideoHandle,
)
from samplers.model_scores import available, model_choice, usable_answers
from samplers.options import check_ranges
from samplers.selection import finalise, is_degenerate, seeded_rng

FrameSets = list[list[int]]


def drawn_sets(
    num_frames: int, set_size: int, num_sets: int, rng: np.random.Generator
) -> FrameSets:
    """At most `num_sets` (2 or more) different sets of `set_size` of the positions 0 to
    `num_frames - 1`.

    A set takes one frame of every stratum, and within a stratum all frames come equally often, give
    or take one. Half of the sets take stretches of time as strata: they are spread, and tell the
    frames of a stretch apart. The other half take every `set_size`-th frame: they tell the
    stretches apart, of which the first half always show one each.
    """
    positions = np.arange(num_frames)
    stretches = np.array_split(positions, set_size)
    combs = [positions[start::set_size] for start in range(set_size)]
    sets = [
        *_one_of_each(stretches, num_sets - num_sets // 2, rng),
        *_one_of_each(combs, num_sets // 2, rng),
    ]
    return [list(chosen) for chosen in dict.fromkeys(sets)]


def _one_of_each(
    strata: list[IndexArray], num_sets: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    columns = []
    for stratum in strata:
        num_rounds = -(-num_sets // len(stratum))
        drawn = [rng.permutation(stratum) for _ in range(num_rounds)]
        columns.append(np.concatenate(drawn)[:num_sets])
    return [tuple(chosen) for chosen in np.sort(np.stack(columns, axis=1)).tolist()]


def frame_values(
    sets: FrameSets, rewards: TimeArray, cosines: FloatArray, prior_weight: float
) -> TimeArray:
    """float64 `[M]`: what each frame adds to the reward of a set that holds it.

    Least squares of `rewards` (float64, one a set, NaN where there is none) on membership, with a
    ridge towards the frames' `cosines` (`[M]`): scaled so that they would spread the rewards as far
    as they do spread, they count as `prior_weight` sets a frame. Rewards that are all equal tell
    nothing: every value is then 0.
    """
    is_answered = ~np.isnan(rewards)
    observed = rewards[is_answered]
    if is_degenerate(observed):
        return np.zeros(len(cosines))
    membership = np.zeros((len(sets), len(cosines)))
    np.put_along_axis(membership, np.array(sets), 1.0, axis=1)
    members = membership[is_answered]
    members -= members.mean(axis=0)
    # Independent frames, `set_size` of them in a set, add up their variances.
    prior = _standardised(cosines) * observed.std() / np.sqrt(len(sets[0]))
    values: TimeArray = np.linalg.solve(
        members.T @ members + prior_weight * np.eye(len(cosines)),
        members.T @ (observed - observed.mean()) + prior_weight * prior,
    )
    return values


def _standardised(cosines: FloatArray) -> TimeArray:
    exact = cosines.astype(np.float64)
    if is_degenerate(exact):
        return np.zeros(len(exact))
    scaled: TimeArray = (exact - exact.mean()) / exact.std()
    return scaled


@dataclass(frozen=True, slots=True)
class FrameVoyagerLiteSampler:
    """A model judges small sets of likely frames; those that make sets suffice are taken."""

    id: ClassVar[str] = "frame-voyager-lite"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = True

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(SamplerOptions):
        """How many sets the model judges, of how many frames, and whom to believe."""

        num_asked: int = field(
            default=32,
            metadata={
                "doc": "most frames that sets are drawn from, 4 to 128; the model is not asked "
                "when the budget takes as many"
            },
        )
        num_sets: int = field(
            default=64,
            metadata={
                "doc": "most sets that the model judges, one call each, up to 256; every frame "
                "must come at least twice: num_sets * set_size >= 2 * num_asked"
            },
        )
        set_size: int = field(
            default=4, metadata={"doc": "frames in a set, 2 to 16, at most half of num_asked"}
        )
        prior_weight: float = field(
            default=1.0,
            metadata={
                "doc": "how many sets a frame's cosine counts as against the model's judgement, "
                "0.01 to 100"
            },
        )
        seed: int = field(default=0, metadata={"doc": "another seed draws other sets"})

        def __post_init__(self) -> None:
            check_ranges(
                self,
                num_asked=(4, 128),
                num_sets=(2, 256),
                set_size=(2, min(16, self.num_asked // 2)),
                prior_weight=(0.01, 100),
            )
            if self.num_sets * self.set_size < 2 * self.num_asked:
                raise InvalidOptionsError(
                    "option 'num_sets' is too low for every frame to come twice: "
                    "num_sets * set_size must reach 2 * num_asked"
                )

        @property
        def uses_scorer(self) -> bool:
            return True

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
        """Exactly `min(budget, C)` frame indices, as `select_with_note` chooses them."""
        return self.select_with_note(video, query, budget, scenes).indices

    def select_with_note(
        self,
        video: VideoHandle,
        query: str | None,
        budget: int,
        scenes: list[Scene] | None,
    ) -> NotedSelection:
        """At most `num_sets` questions; `uniform` rows without a query or usable scores.

        Raises `FeaturesMissingError`, and `ScorerUnavailableError` where the model cannot be asked.
        """
        del scenes
        options = self.options
        choice = model_choice(video, query, budget, self.encoder, options.num_asked)
        if isinstance(choice, NotedSelection):
            return choice
        num_asked = len(choice.rows)
        set_size = min(options.set_size, num_asked // 2)
        rng = seeded_rng(video, query, budget, options.seed)
        sets = drawn_sets(num_asked, set_size, options.num_sets, rng)
        asked = [choice.rows[chosen].tolist() for chosen in sets]
        answers = available(self.scorer).score_sets(video, choice.query, asked)
        rewards = usable_answers(answers, len(asked))
        cosines = choice.cosines[choice.rows]
        values = frame_values(sets, rewards, cosines, options.prior_weight)
        num_answered = np.count_nonzero(~np.isnan(rewards))
        return NotedSelection(
            finalise(choice.best_rows(values, budget), video, budget, choice.cosines),
            f"asked about {len(sets)} sets of {set_size} of {num_asked} of "
            f"{len(video.candidates):,} candidates, {num_answered} answered",
        )
