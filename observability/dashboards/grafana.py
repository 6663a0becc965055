"""Panels, rows and dashboards, and the JSON that Grafana imports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from observability.dashboards.queries import TARGET, Query
from observability.metric import Metric

Json: TypeAlias = dict[str, object]

GRID_WIDTH = 24
SCHEMA_VERSION = 39
"""Of Grafana 11; newer ones read it and convert it."""

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
TAG = "framegate"


class View(StrEnum):
    """How a panel shows its series: Grafana's panel types."""

    LINES = "timeseries"
    NUMBER = "stat"
    TABLE = "table"


class Unit(StrEnum):
    """Grafana's words for units."""

    SECONDS = "s"
    SHARE = "percentunit"
    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    COUNT = "short"
    PER_SECOND = "ops"


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    description: str
    unit: Unit
    queries: tuple[Query, ...]
    view: View = View.LINES
    width: int = 8
    height: int = 8
    is_stacked: bool = False
    red_from: float | None = None
    """A number turns red from here on."""


def graph(title: str, description: str, unit: Unit, *queries: Query, width: int = 8) -> Panel:
    return Panel(title, description, unit, queries, width=width)


def stacked(title: str, description: str, unit: Unit, *queries: Query, width: int = 8) -> Panel:
    return Panel(title, description, unit, queries, width=width, is_stacked=True)


def number(
    title: str, description: str, unit: Unit, query: Query, *, red_from: float | None = None
) -> Panel:
    return Panel(title, description, unit, (query,), View.NUMBER, 3, 4, red_from=red_from)


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """Vertical lines in every graph: the moments at which an expression has a value."""

    name: str
    query: Query
    colour: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice above the panels: the values of one label of a metric."""

    label: str
    metric: Metric


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()
    marks: tuple[Marks, ...] = ()


def document(dashboard: Dashboard, targets: Metric) -> Json:
    """What Grafana imports. `targets` is a metric that every gateway exports all the time."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables(dashboard, targets))},
        "annotations": {"list": [_annotation(marks) for marks in dashboard.marks]},
        "links": [_links_to_the_others()],
        "panels": list(_panels(dashboard.rows)),
    }


def _panels(rows: Sequence[Row]) -> Iterator[Json]:
    panel_id = y = 0
    for row in rows:
        panel_id += 1
        yield _row(row, panel_id, y)
        y += 1
        x = height = 0
        for panel in row.panels:
            if x + panel.width > GRID_WIDTH:
                x, y, height = 0, y + height, 0
            panel_id += 1
            place: Json = {"h": panel.height, "w": panel.width, "x": x, "y": y}
            yield _panel(panel, panel_id, place)
            x, height = x + panel.width, max(height, panel.height)
        y += height


def _row(row: Row, panel_id: int, y: int) -> Json:
    place = {"h": 1, "w": GRID_WIDTH, "x": 0, "y": y}
    return {
        "id": panel_id,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": place,
        "panels": [],
    }


def _panel(panel: Panel, panel_id: int, place: Json) -> Json:
    return {
        "id": panel_id,
        "type": str(panel.view),
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": [
            _target(panel, query, chr(ord("A") + n)) for n, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }


def _target(panel: Panel, query: Query, ref_id: str) -> Json:
    is_now = panel.view is not View.LINES
    return {
        "refId": ref_id,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query.expression,
        "legendFormat": query.legend,
        "instant": is_now,
        "range": not is_now,
        "format": "table" if panel.view is View.TABLE else "time_series",
    }


def _defaults(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    defaults: Json = {
        "unit": str(panel.unit),
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.unit is Unit.SHARE:
        defaults |= {"min": 0}
    if panel.view is View.LINES:
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 20 if panel.is_stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.is_stacked else "none", "group": "A"},
        }
    return defaults


def _options(panel: Panel) -> Json:
    if panel.view is View.LINES:
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if panel.view is View.TABLE:
        return {"showHeader": True}
    return {
        "colorMode": "background" if panel.red_from is not None else "value",
        "graphMode": "none",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }


def _variables(dashboard: Dashboard, targets: Metric) -> Iterator[Json]:
    yield {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "refresh": 1,
    }
    name = targets.prometheus_name
    yield _choice("job", name)
    yield _choice("instance", f'{name}{{job=~"$job"}}')
    for variable in dashboard.variables:
        yield _choice(variable.label, f"{variable.metric.prometheus_name}{{{TARGET}}}")


def _choice(label: str, selector: str) -> Json:
    definition = f"label_values({selector}, {label})"
    return {
        "name": label,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": definition,
        "query": {"qryType": 1, "query": definition, "refId": "PrometheusVariableQueryEditor"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _annotation(marks: Marks) -> Json:
    return {
        "name": marks.name,
        "datasource": DATASOURCE,
        "enable": True,
        "expr": marks.query.expression,
        "titleFormat": marks.name,
        "textFormat": marks.query.legend,
        "step": "60s",
        "iconColor": marks.colour,
    }


def _links_to_the_others() -> Json:
    return {
        "type": "dashboards",
        "title": "Framegate",
        "tags": [TAG],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
    }
