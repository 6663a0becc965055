"""How soon answers obey: from a write to the last decision for the old sampler, under load.

    python -m benchmarks.rollback
    python -m benchmarks.rollback --only guard --rounds 2 --print-only

The real gateway and encoder process, an immediate local LLM, several clients asking all the time.
Rounds alternate two flag files, put in place by a rename; other rounds switch the kill switch, roll
a rollout back by command, or leave it to a guard, whose verdict's time stands in the audit log. The
decisions are read off the gateway's log, which tells each with its time. The named alternative is
flagd's own file mode, which polls every 500 ms.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, sleep, time

from app.cli_client import CliError, FramegateClient
from app.demo import demo_clip
from benchmarks.instant_llm import instant_llm
from benchmarks.report import append_result
from benchmarks.service import Service, running_service
from observability.names import Event, FeatureFlagAttribute

NUM_CLIENTS = 4
NUM_ROUNDS = 40
SETTLE_S = 0.5
BROKEN = "story-broken"
GUARD = "sampler_failure<=5%"
VERDICT_TIMEOUT_S = 60.0
FLAGD_POLL_MS = 500.0
LOG_RESOLUTION_MS = 1.0


@dataclass(slots=True)
class Decisions:
    """The gateway's log, from where it was read last."""

    log: Path
    offset: int = 0
    num_read: int = 0
    problems: list[str] = field(default_factory=list)
    """Of answers that failed, which none should."""

    def skip(self) -> None:
        self.offset = self.log.stat().st_size

    def read(self) -> list[tuple[float, str]]:
        """(seconds since the epoch, sampler) of every decision since the last call."""
        with self.log.open("rb") as file:
            file.seek(self.offset)
            whole, _, _ = file.read().rpartition(b"\n")
        self.offset += len(whole) + 1
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith(b"{")]
        decisions = [
            (datetime.fromisoformat(line["ts"]).timestamp(), str(line[FeatureFlagAttribute.VALUE]))
            for line in lines
            if line["event"] == Event.FLAG_EVALUATION
        ]
        self.num_read += len(decisions)
        return decisions


def flag_file(sampler: str) -> str:
    variants = {sampler: sampler}
    flag = {"state": "ENABLED", "variants": variants, "defaultVariant": sampler}
    off = {"state": "ENABLED", "variants": {"off": "off"}, "defaultVariant": "off"}
    rate = {"state": "ENABLED", "variants": {"none": 0.0}, "defaultVariant": "none"}
    flags = {
        "video.sampler": flag,
        "video.sampler.shadow": off,
        "video.sampler.shadow_rate": rate,
    }
    return json.dumps({"flags": flags})


def put_flags(service: Service, sampler: str) -> None:
    path = service.data_dir / "flags.json"
    made = path.with_suffix(".new")
    made.write_text(flag_file(sampler))
    made.replace(path)


def ask_until_stopped(url: str, video_id: str, stop: threading.Event, problems: list[str]) -> None:
    users = (f"user-{number}" for number in count())
    with FramegateClient(url, None) as client:
        while not stop.is_set():
            body = {"video_id": video_id, "question": "What is there?", "user_id": next(users)}
            try:
                problems += [
                    event.data["title"] for event in client.ask(body) if event.name == "error"
                ]
            except CliError as exc:
                problems.append(str(exc))


@contextmanager
def under_load(service: Service, video_id: str) -> Iterator[Decisions]:
    stop = threading.Event()
    decisions = Decisions(service.log)
    arguments = (service.url, video_id, stop, decisions.problems)
    clients = [
        threading.Thread(target=ask_until_stopped, args=arguments) for _ in range(NUM_CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        yield decisions
    finally:
        stop.set()
        for client in clients:
            client.join()


def obeyed_after_ms(decisions: Decisions, switch: Callable[[], None], old: str) -> float:
    """Milliseconds from the start of `switch` to the last decision for `old` after it; 0 when there
    is none."""
    sleep(SETTLE_S)
    decisions.skip()
    switched = time()
    switch()
    sleep(SETTLE_S)
    return last_after_ms(decisions.read(), switched, old)


def last_after_ms(made: Sequence[tuple[float, str]], switched: float, old: str) -> float:
    """From `switched` (seconds since the epoch) to the last decision of `made` for `old`."""
    if not any(sampler != old and when > switched for when, sampler in made):
        raise RuntimeError("no decision obeyed; the figures mean nothing")
    late = [when for when, sampler in made if sampler == old and when > switched]
    return 1000 * (max(late) - switched) if late else 0.0


def summary(name: str, times_ms: list[float]) -> str:
    # A decision's time is known to the millisecond; none after the switch is 0.
    p99 = max(quantiles(times_ms, n=100)[-1], LOG_RESOLUTION_MS)
    return (
        f"- {name}: p50 {median(times_ms):.0f} ms, p99 ≤ {p99:.0f} ms of {len(times_ms)} rounds; "
        f"flagd's poll alone takes up to {FLAGD_POLL_MS:.0f} ms, **{FLAGD_POLL_MS / p99:.0f} ×**."
    )


def by_file(service: Service, decisions: Decisions) -> float:
    put_flags(service, "bolt")
    return obeyed_after_ms(decisions, lambda: put_flags(service, "uniform"), "bolt")


def by_switch(service: Service, decisions: Decisions) -> float:
    put_flags(service, "bolt")
    taken = obeyed_after_ms(decisions, lambda: switch_to(service, is_on=True), "bolt")
    switch_to(service, is_on=False)
    return taken


def by_command(service: Service, decisions: Decisions) -> float:
    put_flags(service, "uniform")
    roll_back = partial(command_rollback, service, start_rollout(service, "bolt"))
    return obeyed_after_ms(decisions, roll_back, "bolt")


def by_guard(service: Service, decisions: Decisions) -> float:
    """Counted from the look in which the guard failed, its statistics included; how long answers
    had been failing by then is the guard's affair (benchmarks/guards.py)."""
    put_flags(service, "uniform")
    decisions.skip()
    rollout_id = start_rollout(service, BROKEN, guards=[GUARD], user_answers=1)
    wait_until_rolled_back(service, rollout_id)
    sleep(SETTLE_S)
    step = service.client.get(f"/v1/rollouts/{rollout_id}")["last_step"]
    made = decisions.read()
    verdict_s = float(step["evidence"]["report"]["at_s"])
    if not any(sampler == BROKEN and when <= verdict_s for when, sampler in made):
        raise RuntimeError("nobody got the candidate; the figures mean nothing")
    return last_after_ms(made, verdict_s, BROKEN)


WAYS: dict[str, tuple[str, Callable[[Service, Decisions], float], int]] = {
    "file": ("Flag file set to `uniform`", by_file, NUM_ROUNDS),
    "switch": ("Kill switch on", by_switch, NUM_ROUNDS),
    "command": ("Rollout of 50 % rolled back by command", by_command, NUM_ROUNDS // 2),
    "guard": (
        f"Rollout of 50 % rolled back by `{GUARD}`, from the guard's verdict",
        by_guard,
        NUM_ROUNDS // 2,
    ),
}
"""What is printed, what is done, and how often."""


def measure(
    service: Service, video_id: str, only: Sequence[str], num_rounds: int | None
) -> list[str]:
    times_ms: dict[str, list[float]] = {}
    with under_load(service, video_id) as decisions:
        for way in only:
            _, take, usual = WAYS[way]
            times_ms[way] = [take(service, decisions) for _ in range(num_rounds or usual)]
    return [
        f"{NUM_CLIENTS} clients asking without a pause, {decisions.num_read:,} decisions looked "
        "at. From the start of the write or request, or from a guard's verdict, to the last "
        "decision for the old sampler. Aim: ≤ 100 ms p99.",
        "",
        *(summary(WAYS[way][0], times) for way, times in times_ms.items()),
        "",
        " ".join([f"Answers that failed: {len(decisions.problems)}.", *set(decisions.problems)]),
    ]


def wait_until_rolled_back(service: Service, rollout_id: str) -> None:
    deadline = monotonic() + VERDICT_TIMEOUT_S
    while monotonic() < deadline:
        # The list, because a single rollout is judged for whoever asks for it.
        for rollout in service.client.get("/v1/rollouts")["rollouts"]:
            if rollout["rollout_id"] == rollout_id and rollout["state"] == "rolled_back":
                return
        sleep(0.1)
    raise RuntimeError(f"no guard failed within {VERDICT_TIMEOUT_S:g} s")


def start_rollout(service: Service, candidate: str, **more: object) -> str:
    """Half of the users get `candidate`; the rollout's id."""
    body = {"candidate": candidate, "stages": [50], "who": "benchmark", "why": "rollback", **more}
    return str(service.client.post("/v1/rollouts", body)["rollout_id"])


def command_rollback(service: Service, rollout_id: str) -> None:
    body = {"who": "benchmark", "why": "rollback"}
    service.client.post(f"/v1/rollouts/{rollout_id}/rollback", body)


def switch_to(service: Service, *, is_on: bool) -> None:
    body = {"is_on": is_on, "who": "benchmark", "why": "rollback"}
    service.client.put("/v1/kill-switch", body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(WAYS), help="ways, comma separated")
    parser.add_argument(
        "--rounds", type=int, help="of each way, 2 or more; default 40, or 20 of rollouts"
    )
    parser.add_argument("--print-only", action="store_true", help="leave docs/ alone")
    arguments = parser.parse_args()
    only = tuple(arguments.only.split(","))
    if arguments.rounds is not None and arguments.rounds < 2:
        parser.error("--rounds must be 2 or more: one round has no p99")
    if unknown := set(only) - set(WAYS):
        parser.error(f"there is no way {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    with (
        tempfile.TemporaryDirectory(prefix="framegate-benchmark-") as temporary,
        instant_llm() as llm,
    ):
        settings = {
            "FRAMEGATE_LLM_URL": llm.url,
            "FRAMEGATE_LOG_FORMAT": "json",
            "FRAMEGATE_EXTRA_SAMPLERS": "benchmarks.story_samplers:BrokenSampler",
        }
        with running_service(Path(temporary) / "data", settings) as service:
            video = service.client.upload(demo_clip(), lambda _: None)
            service.client.wait_until_indexed(video["video_id"], lambda _: None)
            lines = measure(service, str(video["video_id"]), only, arguments.rounds)
    if arguments.print_only:
        print("\n".join(lines))
    else:
        append_result("Rollback (benchmarks/rollback.py)", lines)


if __name__ == "__main__":
    main()
