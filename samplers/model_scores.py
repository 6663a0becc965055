"""What model-backed samplers share: whom to ask, what counts as an answer, rows that keep apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samplers.contract import (
    FloatArray,
    FrameScorer,
    IndexArray,
    NotedSelection,
    ScorerUnavailableError,
    TimeArray,
    VideoHandle,
)
from samplers.selection import (
    RealArray,
    finalise,
    nms_rows,
    num_wanted,
    top_rows,
    uniform_rows,
    usable_scores,
)

UNRANKED_NOTE = "model not asked: no question, or scores that rank nothing; evenly spread"


ALL_TAKEN_NOTE = "model not asked: the budget takes every frame it would be asked about; by score"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What a model is asked to choose from."""

    query: str
    rows: IndexArray
    """int64 `[M]`, ascending: the rows to ask about; more than the budget takes."""
    cosines: FloatArray
    """float32 `[C]`, of every candidate."""
    times_s: TimeArray
    """float64 `[C]`, of every candidate."""

    def best_rows(self, values: TimeArray, count: int) -> IndexArray:
        """int64, ascending: `count` of `rows` by (value, cosine, earlier row) that keep apart.

        `values` is `[M]`; NaN rows are taken last.
        """
        cosines = self.cosines[self.rows]
        order = np.lexsort((-self.rows, cosines, np.where(np.isnan(values), -np.inf, values)))
        ranks = np.full(len(self.cosines), np.nan)
        ranks[self.rows[order]] = np.arange(len(order))
        return spread_rows(ranks, self.times_s, count)


def model_choice(
    video: VideoHandle, query: str | None, budget: int, encoder: str, num_asked: int
) -> ModelChoice | NotedSelection:
    """The `num_asked` candidates with the highest cosines that keep apart, or, without any choice
    or any ranking, the selection itself.

    Raises `FeaturesMissingError`.
    """
    wanted, num_rows = num_wanted(video, budget), len(video.candidates)
    if wanted in (0, num_rows):
        return NotedSelection(finalise([], video, budget))
    cosines = usable_scores(video, encoder, query)
    if query is None or cosines is None:
        return NotedSelection(
            finalise(uniform_rows(num_rows, wanted), video, budget), UNRANKED_NOTE
        )
    times_s = video.timestamps_s[video.candidates]
    rows = spread_rows(cosines, times_s, max(wanted, num_asked))
    if wanted >= num_asked:
        return NotedSelection(finalise(rows, video, budget, cosines), ALL_TAKEN_NOTE)
    return ModelChoice(query, rows, cosines, times_s)


def available(scorer: FrameScorer | None) -> FrameScorer:
    """The scorer itself. Raises `ScorerUnavailableError` where the deployment has none."""
    if scorer is None:
        raise ScorerUnavailableError("no scoring model is configured")
    return scorer


def usable_answers(answers: object, num_asked: int) -> TimeArray:
    """float64 `[num_asked]`: NaN where the model gave nothing that is a number.

    Raises `ScorerUnavailableError` when nothing is left, and when `answers` is anything but a
    floating-point array `[num_asked]`: answers that cannot be told apart are none.
    """
    if not isinstance(answers, np.ndarray) or not np.issubdtype(answers.dtype, np.floating):
        kind = answers.dtype if isinstance(answers, np.ndarray) else type(answers).__name__
        raise ScorerUnavailableError(f"the scoring model's answers are no float array but {kind}")
    if answers.shape != (num_asked,):
        raise ScorerUnavailableError(
            f"the scoring model gave answers of shape {answers.shape} to {num_asked} questions"
        )
    usable = np.where(np.isfinite(answers), answers, np.nan).astype(np.float64)
    if np.isnan(usable).all():
        raise ScorerUnavailableError("the scoring model answered none of the questions")
    return usable


def usable_text(answer: object) -> str:
    """What the model wrote. Raises `ScorerUnavailableError` when that is no text."""
    if not isinstance(answer, str):
        raise ScorerUnavailableError(
            f"the scoring model's ratings are no text but {type(answer).__name__}"
        )
    return answer


def completed(answers: TimeArray, cosines: FloatArray) -> TimeArray:
    """`answers` with every NaN replaced by what its cosine stands for among the answered rows.

    Both are of one length; at least one answer is there. Cosines are carried over rank by rank: the
    row with the best cosine of all gets the best answer, one between two answered rows a value
    between the answers of the same two ranks.
    """
    is_answered = ~np.isnan(answers)
    known_cosines = np.sort(cosines[is_answered].astype(np.float64))
    expected: TimeArray = np.interp(cosines, known_cosines, np.sort(answers[is_answered]))
    return np.where(is_answered, answers, expected)


def spread_rows(scores: RealArray, times_s: TimeArray, count: int) -> IndexArray:
    """int64, ascending: `count` rows by greedy non-maximum suppression, as M-LLM does it.

    After each pick, best first, its neighbours within `C / (4 * count)` positions are passed over.
    What then lacks are the best of those passed over. Positions are taken as time, on a grid as
    dense as the candidates are on average, which is the same where they are evenly spaced.
    `scores` and `times_s` (float64, seconds, increasing) are `[C]`; NaN rows are never taken, so
    fewer than `count` come only where fewer have a score.
    """
    num_rows = len(scores)
    span_s = float(times_s[-1] - times_s[0]) if num_rows else 0.0
    interval_s = span_s / max(num_rows - 1, 1)
    # Half an interval more than whole positions: "within" includes, whatever the rounding of times.
    gap_s = (num_rows // (4 * max(count, 1)) + 0.5) * interval_s
    picks = nms_rows(scores, times_s, count, gap_s)
    if len(picks) >= count:
        return picks
    passed_over = np.flatnonzero(~np.isnan(scores))
    passed_over = passed_over[~np.isin(passed_over, picks, assume_unique=True)]
    best = top_rows(scores[passed_over], count - len(picks))
    return np.sort(np.concatenate([picks, passed_over[best]]))
