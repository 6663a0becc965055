"""How soon answers obey: from a write to the last evidence of the old sampler, under load.

    python -m benchmarks.rollback

The real gateway and encoder process, an immediate local LLM, several clients asking all the time.
Rounds alternate two flag files, put in place by a rename; other rounds switch the kill switch. The
clock stops when a client receives evidence, so selection and reduction are inside the figure. The
named alternative is flagd's own file mode, which polls every 500 ms.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, sleep

from app.cli_client import FramegateClient
from app.demo import demo_clip
from benchmarks.instant_llm import instant_llm
from benchmarks.report import append_result
from benchmarks.service import Service, running_service

NUM_CLIENTS = 4
NUM_ROUNDS = 40
SETTLE_S = 0.5
FLAGD_POLL_MS = 500.0


@dataclass(slots=True)
class Load:
    """What the asking clients have seen: (when, sampler) of every evidence."""

    seen: list[tuple[float, str]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)


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


def ask_until_stopped(url: str, video_id: str, load: Load) -> None:
    with FramegateClient(url, None) as client:
        while not load.stop.is_set():
            for event in client.ask({"video_id": video_id, "question": "What is there?"}):
                if event.name == "evidence":
                    load.seen.append((monotonic(), event.data["sampler"]["id"]))


@contextmanager
def under_load(service: Service, video_id: str) -> Iterator[Load]:
    load = Load()
    arguments = (service.url, video_id, load)
    clients = [
        threading.Thread(target=ask_until_stopped, args=arguments) for _ in range(NUM_CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        yield load
    finally:
        load.stop.set()
        for client in clients:
            client.join()


def obeyed_after_ms(load: Load, switch: Callable[[], None], old: str) -> float:
    """Milliseconds from the end of `switch` to the last evidence of `old`; 0 when there is none."""
    sleep(SETTLE_S)
    load.seen.clear()
    switch()
    switched = monotonic()
    sleep(SETTLE_S)
    late = [when for when, sampler in list(load.seen) if sampler == old and when > switched]
    return 1000 * (max(late) - switched) if late else 0.0


def summary(name: str, times_ms: list[float]) -> str:
    p99 = quantiles(times_ms, n=100)[-1]
    return (
        f"- {name}: p50 {median(times_ms):.1f} ms, p99 {p99:.1f} ms of {len(times_ms)} rounds; "
        f"flagd's poll alone takes up to {FLAGD_POLL_MS:.0f} ms, **{FLAGD_POLL_MS / p99:.0f} ×**."
    )


def measure(service: Service, video_id: str) -> list[str]:
    by_file, by_switch = [], []
    with under_load(service, video_id) as load:
        for _ in range(NUM_ROUNDS):
            put_flags(service, "bolt")
            by_file.append(obeyed_after_ms(load, lambda: put_flags(service, "uniform"), "bolt"))
        put_flags(service, "bolt")
        for _ in range(NUM_ROUNDS):
            switch_to(service, is_on=False)
            by_switch.append(obeyed_after_ms(load, lambda: switch_to(service, is_on=True), "bolt"))
        num_answers = len(load.seen)
    if not num_answers:
        raise RuntimeError("no answers came; the figures mean nothing")
    return [
        f"{NUM_CLIENTS} clients asking without a pause. Aim: ≤ 100 ms p99.",
        "",
        summary("Flag file set to `uniform`", by_file),
        summary("Kill switch on", by_switch),
    ]


def switch_to(service: Service, *, is_on: bool) -> None:
    body = {"is_on": is_on, "who": "benchmark", "why": "rollback"}
    service.client.put("/v1/kill-switch", body)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="framegate-benchmark-") as temporary,
        instant_llm() as llm,
    ):
        settings = {"FRAMEGATE_LLM_URL": llm.url, "FRAMEGATE_LOG_LEVEL": "warning"}
        with running_service(Path(temporary) / "data", settings) as service:
            video = service.client.upload(demo_clip(), lambda _: None)
            service.client.wait_until_indexed(video["video_id"], lambda _: None)
            lines = measure(service, str(video["video_id"]))
    append_result("Rollback (benchmarks/rollback.py)", lines)


if __name__ == "__main__":
    main()
