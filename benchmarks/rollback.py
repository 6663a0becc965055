"""How soon answers obey: from a write to the last decision for the old sampler, under load.

    python -m benchmarks.rollback

The real gateway and encoder process, an immediate local LLM, several clients asking all the time.
Rounds alternate two flag files, put in place by a rename; other rounds switch the kill switch. The
decisions are read off the gateway's log, which tells each with its time. The named alternative is
flagd's own file mode, which polls every 500 ms.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from time import sleep, time

from app.cli_client import FramegateClient
from app.demo import demo_clip
from benchmarks.instant_llm import instant_llm
from benchmarks.report import append_result
from benchmarks.service import Service, running_service
from observability.names import Event, FeatureFlagAttribute

NUM_CLIENTS = 4
NUM_ROUNDS = 40
SETTLE_S = 0.5
FLAGD_POLL_MS = 500.0
LOG_RESOLUTION_MS = 1.0


@dataclass(slots=True)
class Decisions:
    """The gateway's log, from where it was read last."""

    log: Path
    offset: int = 0
    num_read: int = 0

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


def ask_until_stopped(url: str, video_id: str, stop: threading.Event) -> None:
    users = (f"user-{number}" for number in count())
    with FramegateClient(url, None) as client:
        while not stop.is_set():
            body = {"video_id": video_id, "question": "What is there?", "user_id": next(users)}
            for _ in client.ask(body):
                pass


@contextmanager
def under_load(service: Service, video_id: str) -> Iterator[Decisions]:
    stop = threading.Event()
    arguments = (service.url, video_id, stop)
    clients = [
        threading.Thread(target=ask_until_stopped, args=arguments) for _ in range(NUM_CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        yield Decisions(service.log)
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
    made = decisions.read()
    if not any(sampler != old for _, sampler in made):
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


def measure(service: Service, video_id: str) -> list[str]:
    by_file, by_switch, by_command = [], [], []
    with under_load(service, video_id) as decisions:
        for _ in range(NUM_ROUNDS):
            put_flags(service, "bolt")
            by_file.append(
                obeyed_after_ms(decisions, lambda: put_flags(service, "uniform"), "bolt")
            )
        put_flags(service, "bolt")
        for _ in range(NUM_ROUNDS):
            switch_to(service, is_on=False)
            by_switch.append(
                obeyed_after_ms(decisions, lambda: switch_to(service, is_on=True), "bolt")
            )
        switch_to(service, is_on=False)
        put_flags(service, "uniform")
        for _ in range(NUM_ROUNDS // 2):
            roll_back = partial(command_rollback, service, start_rollout(service))
            by_command.append(obeyed_after_ms(decisions, roll_back, "bolt"))
    return [
        f"{NUM_CLIENTS} clients asking without a pause, {decisions.num_read:,} decisions looked "
        "at. From the start of the write or request to the last decision for the old sampler. "
        "Aim: ≤ 100 ms p99.",
        "",
        summary("Flag file set to `uniform`", by_file),
        summary("Kill switch on", by_switch),
        summary("Rollout of 50 % rolled back by command", by_command),
    ]


def start_rollout(service: Service) -> str:
    """Half of the users get `bolt`; the rollout's id."""
    body = {"candidate": "bolt", "stages": [50], "who": "benchmark", "why": "rollback"}
    return str(service.client.post("/v1/rollouts", body)["rollout_id"])


def command_rollback(service: Service, rollout_id: str) -> None:
    body = {"who": "benchmark", "why": "rollback"}
    service.client.post(f"/v1/rollouts/{rollout_id}/rollback", body)


def switch_to(service: Service, *, is_on: bool) -> None:
    body = {"is_on": is_on, "who": "benchmark", "why": "rollback"}
    service.client.put("/v1/kill-switch", body)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="framegate-benchmark-") as temporary,
        instant_llm() as llm,
    ):
        settings = {"FRAMEGATE_LLM_URL": llm.url, "FRAMEGATE_LOG_FORMAT": "json"}
        with running_service(Path(temporary) / "data", settings) as service:
            video = service.client.upload(demo_clip(), lambda _: None)
            service.client.wait_until_indexed(video["video_id"], lambda _: None)
            lines = measure(service, str(video["video_id"]))
    append_result("Rollback (benchmarks/rollback.py)", lines)


if __name__ == "__main__":
    main()
