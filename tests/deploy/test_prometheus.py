"""A real Prometheus and a real gateway: the scrape, the alert rules and every panel's query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from observability.dashboards.__main__ import rendered
from tests.app.answer_world import QUESTION, AnswerWorld, IndexedData, build_world, serving
from tests.app.video_world import wait_until
from tests.deploy.deployed_files import alerts
from tests.deploy.running_prometheus import Prometheus, scraping

VARIABLES = {
    "$job": ".+",
    "$instance": ".+",
    "$sampler": ".+",
    "$__rate_interval": "1m",
    "${datasource}": "prometheus",
}
FIRE_TIMEOUT_S = 30.0
LAST_METRIC = "framegate_answer_duration_seconds_count"
"""What is recorded last of an answer."""


@dataclass(frozen=True)
class Watched:
    world: AnswerWorld
    url: str
    prometheus: Prometheus


@pytest.fixture(scope="module")
def watched(indexed: IndexedData, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A gateway that answers questions, and Prometheus beside it."""
    folder = tmp_path_factory.mktemp("watched")
    world = build_world(folder / "data", indexed)
    with serving(world) as url, scraping(url, folder) as prometheus:
        ask(url, indexed.short_id)
        # A histogram has no series before its first observation: only the second is an increase.
        wait_until(lambda: bool(prometheus.query(LAST_METRIC)), FIRE_TIMEOUT_S)
        ask(url, indexed.short_id)
        wait_until(lambda: bool(prometheus.query(f"rate({LAST_METRIC}[1m]) > 0")), FIRE_TIMEOUT_S)
        yield Watched(world, url, prometheus)


def ask(url: str, video_id: str) -> None:
    body = {"video_id": video_id, "question": QUESTION}
    httpx.post(f"{url}/v1/answers", json=body, timeout=30.0).raise_for_status()


def queries() -> list[tuple[str, str]]:
    """Title and expression of every query of every panel, its variables filled in."""
    found = []
    for text in rendered().values():
        document = json.loads(text)
        for panel in document["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"]
                for variable, value in VARIABLES.items():
                    expression = expression.replace(variable, value)
                found.append((f"{document['title']}: {panel['title']}", expression))
    return found


def test_the_gateway_is_scraped_without_an_error(watched: Watched) -> None:
    (target,) = watched.prometheus.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_every_alert_is_evaluated_without_an_error(watched: Watched) -> None:
    wait_until(lambda: all(rule["health"] == "ok" for rule in watched.prometheus.rules()))
    names = {rule["name"] for rule in watched.prometheus.rules()}
    assert names == {alert.name for alert in alerts()}


def test_no_alert_fires_over_a_healthy_gateway(watched: Watched) -> None:
    assert watched.prometheus.firing() == set()


def test_every_panel_asks_what_prometheus_understands(watched: Watched) -> None:
    for _, expression in queries():
        watched.prometheus.query(expression)


def test_the_overview_shows_the_answers_that_were_given(watched: Watched) -> None:
    empty = [
        title
        for title, expression in queries()
        if title.startswith("Framegate / Overview:") and not watched.prometheus.query(expression)
    ]
    # Nothing failed and nothing fires.
    assert empty == [
        "Framegate / Overview: Alerts that fire",
        "Framegate / Overview: Stages that failed",
    ]


def test_the_alerts_of_flags_and_kill_switch_fire_and_end_with_their_cause(
    watched: Watched,
) -> None:
    settings, prometheus = watched.world.settings, watched.prometheus
    good = settings.flags_path.read_bytes()
    settings.flags_path.write_bytes(good[:40])
    switch = {"is_on": True, "who": "ana", "why": "rehearsal"}
    httpx.put(f"{watched.url}/v1/kill-switch", json=switch).raise_for_status()
    wait_until(
        lambda: prometheus.firing() == {"FramegateKillSwitchOn", "FramegateFlagsRefused"},
        FIRE_TIMEOUT_S,
    )
    settings.flags_path.write_bytes(good)
    httpx.put(f"{watched.url}/v1/kill-switch", json=switch | {"is_on": False}).raise_for_status()
    wait_until(lambda: prometheus.firing() == set(), FIRE_TIMEOUT_S)
