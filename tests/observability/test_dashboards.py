"""The dashboards: true to observability/names.py, and laid out so that everything is seen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from observability.dashboards.__main__ import DASHBOARDS, rendered, write
from observability.dashboards.grafana import GRID_WIDTH, TAG
from observability.dashboards.queries import per_second, share
from observability.metric import Kind, Metric
from observability.names import ALL_METRICS, ANSWERS, VIDEOS

FOLDER = Path(__file__).resolve().parents[2] / "observability" / "dashboards"
STANDARD = {
    "ALERTS",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "scrape_duration_seconds",
    "target_info",
    "up",
}
"""Of Prometheus itself, of its Python client and of OpenTelemetry's exporter."""
HISTOGRAM_SUFFIXES = ("_bucket", "_sum", "_count")
DOCUMENTS: dict[str, dict[str, Any]] = {name: json.loads(text) for name, text in rendered().items()}
EVERY_DOCUMENT = pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)


def panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def expressions(document: dict[str, Any]) -> Iterator[str]:
    yield from (target["expr"] for panel in panels(document) for target in panel["targets"])
    yield from (annotation["expr"] for annotation in document["annotations"]["list"])
    yield from (
        variable["definition"]
        for variable in document["templating"]["list"]
        if variable["type"] == "query"
    )


def exported_names() -> set[str]:
    """What a panel may name of ours: a histogram is exported as three names."""
    return {
        metric.prometheus_name + suffix
        for metric in ALL_METRICS
        for suffix in (HISTOGRAM_SUFFIXES if metric.kind is Kind.HISTOGRAM else ("",))
    }


def named_metrics(expression: str) -> set[str]:
    """The metrics of an expression: what stands before a brace, and the argument of
    `label_values`."""
    return set(re.findall(r"(\w+)\{", expression)) | set(
        re.findall(r"label_values\((\w+)[,{]", expression)
    )


def test_the_files_are_what_the_metrics_of_today_make() -> None:
    on_disk = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    assert on_disk == rendered(), "run: python -m observability.dashboards"


def test_writing_makes_one_file_a_dashboard(tmp_path: Path) -> None:
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(DOCUMENTS)
    assert len(DOCUMENTS) == len(DASHBOARDS)


@EVERY_DOCUMENT
def test_every_metric_of_a_dashboard_exists(document: dict[str, Any]) -> None:
    named = {name for text in expressions(document) for name in named_metrics(text)}
    assert named - exported_names() - STANDARD == set()


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_seen_in_some_panel(metric: Metric) -> None:
    seen = {
        name
        for document in DOCUMENTS.values()
        for panel in panels(document)
        for target in panel["targets"]
        for name in named_metrics(target["expr"])
    }
    assert {metric.prometheus_name + suffix for suffix in ("", *HISTOGRAM_SUFFIXES)} & seen


@EVERY_DOCUMENT
def test_every_expression_looks_at_the_chosen_gateways_alone(document: dict[str, Any]) -> None:
    for panel in panels(document):
        for target in panel["targets"]:
            selectors = re.findall(r"(\w+)\{([^}]*)\}", target["expr"])
            assert selectors
            for name, labels in selectors:
                chosen = 'job=~"$job",instance=~"$instance"' in labels
                assert chosen or name == "ALERTS", target["expr"]


@EVERY_DOCUMENT
def test_every_variable_of_an_expression_is_declared(document: dict[str, Any]) -> None:
    declared = {variable["name"] for variable in document["templating"]["list"]}
    used = {
        name for text in expressions(document) for name in re.findall(r"\$(?!__)\{?(\w+)", text)
    }
    assert used <= declared


@EVERY_DOCUMENT
def test_every_panel_says_what_it_shows_and_has_a_source(document: dict[str, Any]) -> None:
    for panel in panels(document):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
        ref_ids = [target["refId"] for target in panel["targets"]]
        assert ref_ids
        assert len(set(ref_ids)) == len(ref_ids)


@EVERY_DOCUMENT
def test_no_panel_covers_another_or_leaves_the_grid(document: dict[str, Any]) -> None:
    places = [panel["gridPos"] for panel in document["panels"]]
    assert all(place["x"] + place["w"] <= GRID_WIDTH for place in places)
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


@EVERY_DOCUMENT
def test_every_line_of_panels_fills_the_width(document: dict[str, Any]) -> None:
    widths: dict[int, int] = {}
    for panel in document["panels"]:
        place = panel["gridPos"]
        widths[place["y"]] = widths.get(place["y"], 0) + place["w"]
    assert set(widths.values()) == {GRID_WIDTH}


def test_identifiers_are_unique_and_every_dashboard_is_found_by_its_tag() -> None:
    uids = [document["uid"] for document in DOCUMENTS.values()]
    assert len(set(uids)) == len(uids)
    for document in DOCUMENTS.values():
        ids = [panel["id"] for panel in document["panels"]]
        assert len(set(ids)) == len(ids)
        assert document["tags"] == [TAG]


def test_a_share_of_nothing_is_no_number() -> None:
    whole = per_second(ANSWERS)
    query = share(per_second(VIDEOS), whole, whole, legend="part")
    assert query.expression.endswith(f"/ ({whole.expression} + {whole.expression} > 0)")
    assert query.legend == "part"
