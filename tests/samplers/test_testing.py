from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest

from samplers.contract import (
    ContractViolationError,
    FeaturesMissingError,
    FrameScorer,
    NotedSelection,
    SamplerOptions,
    Scene,
    VideoHandle,
)
from samplers.selection import finalise
from samplers.testing import (
    LONG_VIDEO_ROWS,
    awkward_cases,
    check_sampler,
    make_video,
    selection_digest,
)
from samplers.uniform import UniformSampler


@dataclass(frozen=True)
class Mutant:
    """A correct sampler; every subclass below breaks one rule."""

    id: ClassVar[str] = "mutant"
    version: ClassVar[str] = "1"
    fills_budget: ClassVar[bool] = True
    uses_query: ClassVar[bool] = False

    @dataclass(frozen=True, kw_only=True)
    class Options(SamplerOptions):
        """None."""

    options: Options
    encoder: str
    scorer: FrameScorer | None = None

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        return self.spoilt(finalise([], video, budget), video)

    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return indices


class Repeats(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return [5, 5, 2]


class Floats(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return [float(i) for i in indices]  # type: ignore[misc]  # the mutation


class NumpyInts(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return list(np.array(indices, dtype=np.int64))


class TooFew(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return indices[:-1]


class Unsorted(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return indices[::-1]


class RowsNotFrames(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return list(range(len(indices)))


class Raises(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        raise ZeroDivisionError("stride")


class WritesToItsInput(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        video.timestamps_s[0] = -1.0
        return indices


class SortsItsScenes(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        (scenes or []).reverse()
        return finalise([], video, budget)


class Random(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        rows = np.random.default_rng().permutation(len(video.candidates))[:budget]
        return finalise(rows, video, budget)


class NeedsFeatures(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        video.image_embeddings(self.encoder)
        return indices


class InventsMissingFeatures(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        raise FeaturesMissingError("none, says the sampler")


class NeedsAQuery(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        assert query is not None
        return finalise([], video, budget)


class TripsOverNan(Mutant):
    uses_query: ClassVar[bool] = True

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        rows = [] if query is None else [int(s * 10) for s in video.scores(self.encoder, query)]
        return finalise(rows, video, budget)


class TripsOverInfinity(Mutant):
    uses_query: ClassVar[bool] = True

    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        scores = [0.0] if query is None else video.scores(self.encoder, query).tolist()
        if any(abs(score) == float("inf") for score in scores):
            raise OverflowError("cannot convert float infinity to integer")
        return finalise([], video, budget)


class TripsOverNanRows(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        try:
            embeddings = video.image_embeddings(self.encoder)
        except FeaturesMissingError:
            return indices
        np.linalg.svd(embeddings)
        return indices


class NeedsACandidate(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        assert video.candidates[0] >= 0
        return indices


class TrustsItsScenes(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        assert all(a.end_frame == b.start_frame for a, b in pairwise(scenes or []))
        return finalise([], video, budget)


class ComparesAllPairs(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        near = np.abs(np.subtract.outer(video.candidates, video.candidates)) < 3
        return indices if near.any() or not indices else []


class ReadsTheClock(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return indices if time.monotonic() > 0 else []


class ReadsTheEnvironment(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        return [] if os.environ.get("NOT_SET_ANYWHERE") else indices


class Undeclared(Mutant):
    version: ClassVar[str] = None  # type: ignore[assignment]  # the mutation


class OptionsElsewhere(Mutant):
    options: ClassVar[dict[str, int]] = {}  # type: ignore[assignment,misc]  # the mutation

    def __init__(self, *args: object, **kwargs: object) -> None:
        object.__setattr__(self, "encoder", "default")


class ReadsScoresUnannounced(Mutant):
    def select(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> list[int]:
        scores = None if query is None else video.scores(self.encoder, query)
        return finalise([], video, budget, scores)


class ReadsTheQueryUnannounced(Mutant):
    def select_with_note(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> NotedSelection:
        if query is not None:
            video.query_embedding(self.encoder, query)
        return NotedSelection(self.select(video, query, budget, scenes))


class DependsOnTheThread(Mutant):
    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        is_main = threading.current_thread() is threading.main_thread()
        every: list[int] = video.candidates.tolist()
        return indices if is_main else every[: len(indices)]


class Remembers(Mutant):
    seen: ClassVar[list[int]] = []

    def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
        self.seen.append(len(indices))
        return indices if len(self.seen) % 3 else indices[1:]


class SaysOneThingAndDoesAnother(Mutant):
    def select_with_note(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> NotedSelection:
        return NotedSelection(self.select(video, query, budget, scenes)[1:], "all of them")


class NotesANumber(Mutant):
    def select_with_note(
        self, video: VideoHandle, query: str | None, budget: int, scenes: list[Scene] | None
    ) -> NotedSelection:
        indices = self.select(video, query, budget, scenes)
        return NotedSelection(indices, len(indices))  # type: ignore[arg-type]  # the mutation


REFUSED = {
    Repeats: "strictly increasing",
    Floats: "Python ints",
    NumpyInts: "Python ints",
    TooFew: "expected 1 frames, got 0",
    Unsorted: "strictly increasing",
    RowsNotFrames: "member of video.candidates",
    Raises: "ZeroDivisionError: stride",
    WritesToItsInput: "read-only",
    SortsItsScenes: "changed its inputs",
    Random: "the same input gave",
    InventsMissingFeatures: "features are there",
    NeedsAQuery: "AssertionError",
    TripsOverNan: "ValueError",
    TripsOverInfinity: "OverflowError.*infinite-score",
    TripsOverNanRows: "LinAlgError.*nan-rows-embedding",
    NeedsACandidate: "IndexError.*0-candidate",
    TrustsItsScenes: "overlapping-shots video",
    ComparesAllPairs: "C x C",
    ReadsTheClock: "the clock",
    ReadsTheEnvironment: "the environment",
    Undeclared: "must declare version",
    OptionsElsewhere: "options must be",
    ReadsScoresUnannounced: "uses_query is False.* asked for scores; .*query='Où",
    ReadsTheQueryUnannounced: "uses_query is False.* asked for query_embedding",
    DependsOnTheThread: "threads that share one sampler",
    Remembers: "expected",
    SaysOneThingAndDoesAnother: "select_with_note",
    NotesANumber: "a note is a text, not 0",
}


def test_the_unspoilt_sampler_passes() -> None:
    check_sampler(Mutant)


def test_missing_features_may_be_reported_as_such() -> None:
    check_sampler(NeedsFeatures)


@pytest.mark.parametrize("mutant", list(REFUSED), ids=lambda mutant: mutant.__name__)
def test_a_sampler_that_breaks_a_rule_is_refused_with_the_rule(mutant: type[Mutant]) -> None:
    with pytest.raises(ContractViolationError, match=REFUSED[mutant]):
        check_sampler(mutant)


def test_a_violation_names_the_case() -> None:
    with pytest.raises(ContractViolationError, match=r"video, C=\d+, query=.*budget=\d+, scenes="):
        check_sampler(TooFew)


def test_a_function_that_builds_the_sampler_is_checked_too() -> None:
    check_sampler(lambda: UniformSampler(UniformSampler.Options(), encoder="default"))
    check_sampler(UniformSampler, UniformSampler.Options(mode="endpoints"))


def test_the_videos_are_awkward() -> None:
    videos = [case.video for case in awkward_cases()]
    assert all(video.candidates.tolist() != list(range(video.num_frames)) for video in videos)
    assert {0, 1, 2, 3} <= {len(video.candidates) for video in videos}
    assert any(video.embeddings is None for video in videos)
    assert all((np.diff(video.timestamps_s) > 0).all() for video in videos)


def test_every_edge_of_the_budget_is_asked_for() -> None:
    asked = {case.budget for case in awkward_cases() if case.name == "plain"}
    assert {0, 1, 2, 39, 40, 41, 400} <= asked


def test_scores_and_embeddings_of_every_odd_kind_are_made() -> None:
    scores = make_video(9, score_kind="infinite").scores("e", "q")
    assert np.isposinf(scores).sum() == 1
    assert np.isneginf(make_video(9, score_kind="minus-infinite").scores("e", "q")).sum() == 1
    assert np.isnan(make_video(9, score_kind="all-nan").scores("e", "q")).all()
    zero = make_video(9, embedding_kind="zero-rows").image_embeddings("e")
    assert (np.abs(zero).sum(axis=1) == 0).sum() == 3
    equal = make_video(9, embedding_kind="equal").image_embeddings("e")
    assert len(np.unique(equal, axis=0)) == 1
    repeated = make_video(17, embedding_kind="duplicates").image_embeddings("e")
    assert len(np.unique(repeated, axis=0)) == 3
    assert np.isnan(make_video(9, embedding_kind="nan-rows").scores("e", "q")).sum() == 2


def test_the_allowed_memory_is_far_below_one_byte_a_pair() -> None:
    class ComparesInBlocks(Mutant):
        def spoilt(self, indices: list[int], video: VideoHandle) -> list[int]:
            for block in np.array_split(video.candidates, max(1, len(video.candidates) // 500)):
                np.subtract.outer(block.astype(np.int16), video.candidates.astype(np.int16))
            return indices

    assert LONG_VIDEO_ROWS == 6_000
    check_sampler(ComparesInBlocks)


def test_the_digest_is_the_selections() -> None:
    options = UniformSampler.Options()
    assert selection_digest(UniformSampler) == selection_digest(UniformSampler, options)
    endpoints = UniformSampler.Options(mode="endpoints")
    assert selection_digest(UniformSampler) != selection_digest(UniformSampler, endpoints)


def test_a_made_video_is_reproducible_and_read_only() -> None:
    video, again = make_video(30, seed=5), make_video(30, seed=5)
    np.testing.assert_array_equal(video.candidates, again.candidates)
    embeddings = video.image_embeddings("any")
    np.testing.assert_array_equal(embeddings, again.image_embeddings("any"))
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, rtol=1e-5)
    for array in (video.timestamps_s, video.candidates, embeddings, video.scores("any", "q")):
        assert not array.flags.writeable


def test_scores_are_the_cosines_of_the_query() -> None:
    video = make_video(30)
    expected = video.image_embeddings("e") @ video.query_embedding("e", "q")
    np.testing.assert_allclose(video.scores("e", "q"), expected)
    assert video.scores("e", "q").dtype == np.float32


def test_scenes_cover_the_video() -> None:
    video = make_video(30)
    scenes = video.scenes(6)
    assert len(scenes) == 6
    assert (scenes[0].start_frame, scenes[-1].end_frame) == (0, video.num_frames)
    assert all(a.end_frame == b.start_frame for a, b in pairwise(scenes))
