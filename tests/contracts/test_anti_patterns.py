"""DESIGN's anti-patterns cannot happen here: each check drives the running service over HTTP.

Every check is run twice: on the service, where it must pass, and on a seeded mutant, the same
service with one collaborator that commits the anti-pattern, where it must fail.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.budget import BudgetRule
from app.decode import Decoder
from app.decoding.config import decode_config
from app.encode import FrameEncoder
from app.reduce.contract import ReducedTokens
from app.reduce.none import NoneReducer
from app.select_frames import FrameSelector, Selection, SelectionRequest
from app.settings import Settings
from app.stages import Stages
from app.stores.layout import DataLayout
from app.stores.library import StoredVideo, VideoLibrary
from samplers.contract import FloatArray, Scene
from tests.app.answer_world import (
    AnswerWorld,
    IndexedData,
    Mutation,
    ask,
    build_world,
    running,
    write_colours,
)
from tests.architecture.source_tree import ROOT, SERVICE_PACKAGES
from tests.architecture.test_imports import run_import_linter

pytestmark = pytest.mark.anyio

Evidence = dict[str, Any]
MIN_FRAMES, MAX_FRAMES = 4, 16


async def evidence(client: httpx.AsyncClient, video_id: str, **fields: Any) -> Evidence:
    found: Evidence = (await ask(client, video_id, **fields))["evidence"]
    return found


def indices(found: Evidence) -> list[int]:
    return [frame["index"] for frame in found["frames"]]


class SelectorMutant(FrameSelector):
    """Changes what the real selector chose."""

    def __init__(self, real: FrameSelector, change: Callable[[list[int]], list[int]]) -> None:
        self._real = real
        self._change = change

    async def select_frames(self, sampler_id: str, request: SelectionRequest) -> Selection:
        selection = await self._real.select_frames(sampler_id, request)
        return replace(selection, indices=self._change(selection.indices))


# (a), (d): a budget or a token count that ignores the video's length


async def check_tokens_grow_with_the_video(world: AnswerWorld, indexed: IndexedData) -> None:
    async with running(world) as client:
        short = await evidence(client, indexed.short_id)
        long = await evidence(client, indexed.long_id)
    for found in (short, long):
        assert found["budget"]["limited_by"] == "video_seconds"
        assert MIN_FRAMES < found["budget"]["frames"] < MAX_FRAMES
        assert len(found["frames"]) == found["budget"]["frames"]
    assert short["budget"]["frames"] < long["budget"]["frames"]
    for when in ("before_reduction", "after_reduction"):
        assert short["vision_tokens"][when] < long["vision_tokens"][when]


class FixedTokensReducer(NoneReducer):
    """Keeps the same few tokens, however long the video is."""

    def reduce(self, tokens: FloatArray) -> ReducedTokens:
        return super().reduce(tokens[:4])


def constant_budget(stages: Stages) -> Stages:
    return replace(stages, budget_rule=BudgetRule(8, 8, 0.5))


def constant_tokens(stages: Stages) -> Stages:
    return replace(stages, reducer=FixedTokensReducer(NoneReducer.Options()))


async def test_frames_and_tokens_grow_with_the_length_of_the_video(
    tmp_path: Path, indexed: IndexedData
) -> None:
    await check_tokens_grow_with_the_video(build_world(tmp_path / "data", indexed), indexed)


@pytest.mark.parametrize("mutate", [constant_budget, constant_tokens])
async def test_a_budget_or_token_count_that_ignores_the_length_is_noticed(
    tmp_path: Path, indexed: IndexedData, mutate: Mutation
) -> None:
    mutant = build_world(tmp_path / "data", indexed, mutate=mutate)
    with pytest.raises(AssertionError):
        await check_tokens_grow_with_the_video(mutant, indexed)


async def test_the_context_of_the_language_model_bounds_the_budget_and_the_answer_says_so(
    tmp_path: Path, indexed: IndexedData
) -> None:
    world = build_world(tmp_path / "data", indexed, llm_context_tokens=1000)
    async with running(world) as client:
        found = await evidence(client, indexed.long_id)
    assert found["budget"]["limited_by"] == "context_tokens"
    assert len(found["frames"]) == found["budget"]["frames"] < 10


# (b): sampling before shot detection


async def check_shots_are_found_above_sampling(world: AnswerWorld, clip: bytes) -> None:
    """Candidates are every two seconds, shots begin every five; a budget of one changes nothing."""
    async with running(world) as client:
        video_id = (await client.post("/v1/videos", content=clip)).json()["video_id"]
        found = await evidence(client, video_id, budget=4, sampler="shot")
        lowest = await evidence(client, video_id, budget=1, sampler="uniform")
    assert [scene["start_s"] for scene in found["scenes"]] == [0.0, 5.0, 10.0, 15.0]
    assert lowest["scenes"] == found["scenes"]
    assert [frame["seconds"] // 5 for frame in found["frames"]] == [0, 1, 2, 3]


class LibraryMutant(VideoLibrary):
    """Knows a shot's beginning only from the candidates: shots found on the thinned-out frames."""

    def __init__(self, real: VideoLibrary) -> None:
        self.__dict__.update(vars(real))

    def open(self, video_id: str) -> StoredVideo:
        video = super().open(video_id)
        candidates, end = video.table.candidates, video.table.num_frames
        starts = [int(candidates[candidates.searchsorted(s.start_frame)]) for s in video.scenes]
        bounds = [*sorted({*starts}), end]
        scenes = [Scene(a, b) for a, b in pairwise(bounds)]
        return replace(video, scenes=scenes)


def shots_on_candidates(stages: Stages) -> Stages:
    return replace(stages, library=LibraryMutant(stages.library))


def coarse_world(tmp_path: Path, mutate: Mutation | None = None) -> tuple[AnswerWorld, bytes]:
    world = build_world(
        tmp_path / "data", mutate=mutate, candidate_fps_max=0.5, candidate_fps_min=0.5
    )
    return world, write_colours(tmp_path / "clip.mp4", 20.0)


async def test_shots_are_found_before_anything_is_thinned_out(tmp_path: Path) -> None:
    await check_shots_are_found_above_sampling(*coarse_world(tmp_path))


async def test_shots_that_are_found_after_sampling_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        await check_shots_are_found_above_sampling(*coarse_world(tmp_path, shots_on_candidates))


# (c): trusting a later stage to recover discarded frames


async def check_reducer_and_sampler_are_separate(
    build: Callable[[str], AnswerWorld], indexed: IndexedData
) -> None:
    """Another reducer changes no frame, another sampler changes no reducer."""
    found: dict[str, Evidence] = {}
    for reducer in ("none", "merge"):
        async with running(build(reducer)) as client:
            for sampler in ("uniform", "bolt"):
                found[reducer + sampler] = await evidence(client, indexed.long_id, sampler=sampler)
    for sampler in ("uniform", "bolt"):
        kept, merged = found["none" + sampler], found["merge" + sampler]
        assert indices(kept) == indices(merged)
        assert kept["budget"] == merged["budget"]
        assert kept["vision_tokens"]["after_reduction"] == 20
        assert merged["vision_tokens"]["after_reduction"] == 10
    assert indices(found["mergeuniform"]) != indices(found["mergebolt"])


def fewer_frames_when_merging(stages: Stages) -> Stages:
    if stages.reducer.id == "none":
        return stages
    selector = SelectorMutant(stages.selector, lambda chosen: chosen[::2])
    return replace(stages, selector=selector)


async def test_sampler_and_reducer_are_set_apart(tmp_path: Path, indexed: IndexedData) -> None:
    def build(reducer: str) -> AnswerWorld:
        return build_world(tmp_path / reducer, indexed, reducer=reducer)

    await check_reducer_and_sampler_are_separate(build, indexed)


async def test_a_sampler_that_leans_on_the_reducer_is_noticed(
    tmp_path: Path, indexed: IndexedData
) -> None:
    def build(reducer: str) -> AnswerWorld:
        return build_world(
            tmp_path / reducer, indexed, reducer=reducer, mutate=fewer_frames_when_merging
        )

    with pytest.raises(AssertionError):
        await check_reducer_and_sampler_are_separate(build, indexed)


# (e): decoding again for every question


async def check_questions_decode_nothing(world: AnswerWorld, indexed: IndexedData) -> None:
    async with running(world) as client:
        for sampler in ("uniform", "aks", "shot"):
            await ask(client, indexed.short_id, sampler=sampler)
        assert world.counted("framegate_decode_workers_started_total") == 0
        assert world.counted("framegate_encoder_pictures_encoded_total") == 0
    assert world.encoder.rows == []


class DecodingEncoder:
    """Stage 4 as it must not be: opens the video file again for the chosen frames."""

    def __init__(self, real: FrameEncoder, decode: Callable[[str], Awaitable[object]]) -> None:
        self._real = real
        self._decode = decode

    async def encode(self, video: StoredVideo, indices: list[int]) -> FloatArray:
        await self._decode(video.video_id)
        return await self._real.encode(video, indices)


def decoding_again(data_dir: Path, other: DataLayout) -> Mutation:
    source = DataLayout(data_dir)
    other.create()

    def mutate(stages: Stages) -> Stages:
        decoder = Decoder(decode_config(Settings()), stages.metrics.decode_worker_started)

        async def decode(video_id: str) -> object:
            return await decoder.decode(
                video_id, source.video_bytes(video_id), other, lambda _: None, {}
            )

        return replace(stages, frame_encoder=DecodingEncoder(stages.frame_encoder, decode))

    return mutate


async def test_a_question_decodes_nothing(tmp_path: Path, indexed: IndexedData) -> None:
    await check_questions_decode_nothing(build_world(tmp_path / "data", indexed), indexed)


async def test_a_stage_that_decodes_for_a_question_is_noticed(
    tmp_path: Path, indexed: IndexedData
) -> None:
    mutate = decoding_again(tmp_path / "data", DataLayout(tmp_path / "other"))
    mutant = build_world(tmp_path / "data", indexed, mutate=mutate)
    with pytest.raises(AssertionError):
        await check_questions_decode_nothing(mutant, indexed)


# (f): a sampler tied to a language model's tokenizer


async def check_selection_is_the_same_for_every_language_model(
    build: Callable[[str], AnswerWorld], indexed: IndexedData
) -> None:
    chosen = []
    for llm in ("small", "large"):
        world = build(llm)
        async with running(world) as client:
            chosen.append(
                [
                    indices(await evidence(client, indexed.long_id, sampler=sampler))
                    for sampler in ("uniform", "aks", "bolt", "shot", "fps")
                ]
            )
    assert chosen[0] == chosen[1]


CONTEXTS = {"small": 2400, "large": 9600}


def fitting_frames(stages: Stages) -> Stages:
    counter = stages.generator

    def fit(chosen: list[int]) -> list[int]:
        return chosen[: counter.context_tokens // 300]

    return replace(stages, selector=SelectorMutant(stages.selector, fit))


async def test_samplers_choose_the_same_frames_for_every_language_model(
    tmp_path: Path, indexed: IndexedData
) -> None:
    def build(llm: str) -> AnswerWorld:
        context = CONTEXTS[llm]
        return build_world(tmp_path / llm, indexed, llm_model=llm, llm_context_tokens=context)

    await check_selection_is_the_same_for_every_language_model(build, indexed)


async def test_a_selection_that_knows_the_language_model_is_noticed(
    tmp_path: Path, indexed: IndexedData
) -> None:
    def build(llm: str) -> AnswerWorld:
        context = CONTEXTS[llm]
        return build_world(
            tmp_path / llm, indexed, llm_context_tokens=context, mutate=fitting_frames
        )

    with pytest.raises(AssertionError):
        await check_selection_is_the_same_for_every_language_model(build, indexed)


def test_a_sampler_that_imports_a_tokenizer_breaks_the_import_rule(tmp_path: Path) -> None:
    for package in SERVICE_PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    kept, _ = run_import_linter(tmp_path)
    with (tmp_path / "samplers/uniform.py").open("a") as source:
        source.write("\nfrom tokenizers import Tokenizer\n")
    status, output = run_import_linter(tmp_path)

    assert (kept, status) == (0, 1)
    assert "samplers know no model runtime and no tokenizer BROKEN" in output
