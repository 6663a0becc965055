"""Videos of the needle benchmark: short moments of photographs in long footage, composed.

A video is composed of embeddings of takes, not of files: each distinct picture is embedded once.
benchmarks/needle_real_path.py shows that a file which is decoded and indexed gives the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from benchmarks.needle_encoders import SeenTakes
from benchmarks.needle_pictures import NEEDLES, Take, needle_of, seed_of
from samplers.contract import FeaturesMissingError, FloatArray, IndexArray, Scene, TimeArray

ENCODER = "default"
FRAMES_PER_S = 24
NUM_FOOTAGE_TAKES = 360
NUM_NEEDLE_TAKES = 6
"""Of each needle; a video shows no take of its needle twice."""
SHORTEST_MOMENT_S, LONGEST_MOMENT_S = 2, 8
MOST_EVIDENCE = 0.25
"""Share of a video that may be evidence, and again as much that may be distraction."""
SHORTEST_SHOT_S = 5


@dataclass(frozen=True, slots=True)
class Scenario:
    """One video and its question."""

    needle_id: str
    minutes: int
    num_moments: int
    seed: int
    num_things: int = 1
    """One thing shown in every moment, or as many things as moments, each shown once."""

    @property
    def needle_ids(self) -> tuple[str, ...]:
        """What is asked for: the scenario's needle, and others drawn by its seed."""
        rng = np.random.default_rng(seed_of("things", self.needle_id, self.seed))
        others = [needle.id for needle in NEEDLES if needle.id != self.needle_id]
        drawn = rng.permutation(len(others))[: self.num_things - 1]
        return (self.needle_id, *(others[index] for index in drawn))

    @property
    def question(self) -> str:
        *others, last = [needle_of(needle_id).thing for needle_id in self.needle_ids]
        things = f"{', '.join(others)} and {last}" if others else last
        return f"When can {things} be seen?"

    @property
    def fps(self) -> int:
        """Of the candidates: the service's grid halves 8 down to 1 until at most 128 are left."""
        return 2 if self.minutes * 60 * 2 <= 128 else 1

    @property
    def num_candidates(self) -> int:
        return self.minutes * 60 * self.fps

    @property
    def num_distractors(self) -> int:
        """Moments of other needles: more in a longer video, but ever sparser."""
        return max(2, round(2 * math.sqrt(self.minutes)))


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive candidates from one take."""

    take: Take
    first_row: int
    """Of the take."""
    num_rows: int


@dataclass(frozen=True, slots=True, eq=False)
class NeedleVideo:
    """A `VideoHandle` that knows where its evidence is."""

    video_id: str
    timestamps_s: TimeArray
    candidates: IndexArray
    embeddings: Mapping[str, FloatArray]
    """By encoder."""
    question_vectors: Mapping[tuple[str, str], FloatArray]
    """By encoder and question."""
    scenes: list[Scene]
    moments: tuple[IndexArray, ...]
    """Candidate rows of every moment of evidence."""

    @property
    def num_frames(self) -> int:
        return len(self.timestamps_s)

    def image_embeddings(self, encoder: str) -> FloatArray:
        try:
            return self.embeddings[encoder]
        except KeyError:
            raise FeaturesMissingError(f"no features in {encoder!r}") from None

    def query_embedding(self, encoder: str, query: str) -> FloatArray:
        try:
            return self.question_vectors[encoder, query]
        except KeyError:
            raise FeaturesMissingError(f"no vector of {query!r} in {encoder!r}") from None

    def scores(self, encoder: str, query: str) -> FloatArray:
        vector = self.query_embedding(encoder, query)
        scores: FloatArray = self.image_embeddings(encoder) @ vector
        return scores


def pieces(scenario: Scenario) -> list[Piece]:
    """The video from start to end: shots of footage, cut open where a moment was put in."""
    rng = np.random.default_rng(seed_of("needles", scenario))
    events = _events(rng, scenario)
    num_footage = scenario.num_candidates - sum(event.num_rows for event in events)
    gaps = np.sort(rng.choice(np.arange(1, num_footage), len(events), replace=False))
    lengths = np.diff([0, *gaps.tolist(), num_footage]).tolist()
    shots = _shots(rng, scenario.fps)
    laid = _laid(shots, lengths[0])
    for event, length in zip(events, lengths[1:], strict=True):
        laid += [event, *_laid(shots, length)]
    return laid


def compose(scenario: Scenario, seen: SeenTakes, question_vector: FloatArray) -> NeedleVideo:
    """The video out of embeddings that were made before. Raises OSError when one was not."""
    laid = pieces(scenario)
    frames_a_row = FRAMES_PER_S // scenario.fps
    starts = np.cumsum([0, *(piece.num_rows for piece in laid)])
    cuts = [max(0, int(row) * frames_a_row - frames_a_row // 2) for row in starts[:-1]]
    num_frames = scenario.num_candidates * frames_a_row
    rows = [
        seen.rows(piece.take, scenario.fps)[piece.first_row : piece.first_row + piece.num_rows]
        for piece in laid
    ]
    return NeedleVideo(
        video_id=sha256(repr(scenario).encode()).hexdigest(),
        timestamps_s=np.arange(num_frames) / FRAMES_PER_S,
        candidates=np.arange(scenario.num_candidates, dtype=np.int64) * frames_a_row,
        embeddings={ENCODER: _read_only(np.concatenate(rows))},
        question_vectors={(ENCODER, scenario.question): _read_only(question_vector)},
        scenes=[Scene(a, b) for a, b in zip(cuts, [*cuts[1:], num_frames], strict=True)],
        moments=tuple(
            np.arange(start, start + piece.num_rows, dtype=np.int64)
            for start, piece in zip(starts[:-1].tolist(), laid, strict=True)
            if piece.take.subject in scenario.needle_ids
        ),
    )


def _events(rng: np.random.Generator, scenario: Scenario) -> list[Piece]:
    """Moments of what is asked for and of other things, in random order."""
    numbers = rng.permutation(NUM_NEEDLE_TAKES)[: scenario.num_moments].tolist()
    subjects = scenario.needle_ids * (scenario.num_moments // scenario.num_things)
    events = [
        _moment(rng, scenario, Take(subject, number), scenario.num_moments)
        for subject, number in zip(subjects, numbers, strict=True)
    ]
    others = [needle.id for needle in NEEDLES if needle.id not in scenario.needle_ids]
    for index in range(scenario.num_distractors):
        take = Take(others[int(rng.integers(len(others)))], index % NUM_NEEDLE_TAKES)
        events.append(_moment(rng, scenario, take, scenario.num_distractors))
    return [events[index] for index in rng.permutation(len(events))]


def _moment(rng: np.random.Generator, scenario: Scenario, take: Take, num_like_it: int) -> Piece:
    longest_s = 60 * scenario.minutes * MOST_EVIDENCE / num_like_it
    longest_s = min(LONGEST_MOMENT_S, max(SHORTEST_MOMENT_S, longest_s))
    num_rows = round(rng.uniform(SHORTEST_MOMENT_S, longest_s) * scenario.fps)
    last = take.duration_s * scenario.fps - num_rows
    return Piece(take, int(rng.integers(last + 1)), num_rows)


def _shots(rng: np.random.Generator, fps: int) -> Iterator[Piece]:
    """Footage without end; every take once before any comes again."""
    while True:
        for number in rng.permutation(NUM_FOOTAGE_TAKES).tolist():
            take = Take("footage", number)
            longest = take.duration_s * fps
            num_rows = int(rng.integers(SHORTEST_SHOT_S * fps, longest + 1))
            yield Piece(take, int(rng.integers(longest - num_rows + 1)), num_rows)


def _laid(shots: Iterator[Piece], length: int) -> list[Piece]:
    laid: list[Piece] = []
    while length > 0:
        shot = next(shots)
        laid.append(Piece(shot.take, shot.first_row, min(shot.num_rows, length)))
        length -= laid[-1].num_rows
    return laid


def _read_only(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array
